#include "ops/classical/linear_model.h"

#include "base/error.h"
#include "ops/classical/tree_ensemble.h"
#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;

// Rows and columns of 'X' [batch, features] or [features].
std::pair<Dim, Dim> rows_and_columns(const InferContext& context) {
  const ir::Dims* x = context.dims(0);
  if (x == nullptr) return {};
  context.check(x->size() == 1 || x->size() == 2, "'X' has shape {}, expected [batch, features]", to_string(*x));
  return {x->size() == 2 ? (*x)[0] : Dim(1), x->back()};
}

std::size_t count_of(const AttributeReader& reader, std::string_view name) {
  return reader.has_attribute(name) ? reader.reals(name).size() : 0;
}

void check_count(std::string_view name, std::size_t count, std::int64_t expected) {
  require(static_cast<std::int64_t>(count) == expected, ErrorKind::invalid_model,
          "attribute '{}' has {} entries, expected {}", name, count, expected);
}

// The number of labels; 0 if there are none.
std::size_t label_count(const AttributeReader& reader) {
  const std::size_t numbers = reader.integers_or_empty("classlabels_ints").size();
  const std::size_t texts =
      reader.has_attribute("classlabels_strings") ? reader.texts("classlabels_strings").size() : 0;
  require(numbers == 0 || texts == 0, ErrorKind::invalid_model,
          "only one of classlabels_ints and classlabels_strings may be given");
  return numbers + texts;
}

DType label_type(const AttributeReader& reader) {
  return reader.has_attribute("classlabels_strings") && !reader.texts("classlabels_strings").empty() ? DType::string
                                                                                                     : DType::i64;
}

void infer_linear_regressor(InferContext& context) {
  const auto [rows, columns] = rows_and_columns(context);
  const std::int64_t targets = context.integer("targets");
  context.check(targets >= 1, "targets is {}, expected at least 1", targets);
  post_transform_named(context.text("post_transform"));
  if (columns.is_known())
    check_count("coefficients", count_of(context, "coefficients"), (columns * Dim(targets)).value());
  if (const std::size_t intercepts = count_of(context, "intercepts"); intercepts > 0)
    check_count("intercepts", intercepts, targets);
  context.set_output(0, DType::f32, {rows, targets});
}

void infer_linear_classifier(InferContext& context) {
  const auto [rows, columns] = rows_and_columns(context);
  post_transform_named(context.text("post_transform"));
  const std::size_t coefficients = count_of(context, "coefficients"), labels = label_count(context);
  context.check(labels >= 2, "{} class labels are given, expected at least 2", labels);
  Dim scores;
  if (columns.is_known()) {
    const std::int64_t width = columns.value();
    context.check(width > 0 && static_cast<std::int64_t>(coefficients) % width == 0 && coefficients > 0,
                  "{} coefficients do not fit {} features", coefficients, width);
    const std::int64_t classes = static_cast<std::int64_t>(coefficients) / width;
    const bool fits = classes == static_cast<std::int64_t>(labels) || (classes == 1 && labels == 2);
    context.check(fits, "coefficients for {} classes, but {} labels", classes, labels);
    if (const std::size_t intercepts = count_of(context, "intercepts"); intercepts > 0)
      check_count("intercepts", intercepts, classes);
  }
  context.set_output(0, label_type(context), {rows});
  context.set_output(1, DType::f32, {rows, Dim(static_cast<std::int64_t>(labels))});
}

void infer_svm_regressor(InferContext& context) {
  const auto [rows, columns] = rows_and_columns(context);
  read_svm(context, columns.value());
  context.set_output(0, DType::f32, {rows, 1});
}

void infer_svm_classifier(InferContext& context) {
  const auto [rows, columns] = rows_and_columns(context);
  const SvmPlan plan = read_svm(context, columns.value());
  const std::int64_t pairs = plan.classes * (plan.classes - 1) / 2;
  const bool scores_of_pairs = plan.vectors > 0 && !plan.probabilities && plan.classes > 2;
  context.set_output(0, label_type(context), {rows});
  context.set_output(1, DType::f32, {rows, scores_of_pairs ? pairs : plan.classes});
}

AttributeSpec transform() {
  return {"post_transform", AttributeKind::text, ir::Attribute(std::string("NONE"))};
}

std::vector<AttributeSpec> svm_attributes(std::initializer_list<AttributeSpec> more) {
  std::vector<AttributeSpec> specs{{"coefficients", AttributeKind::reals},
                                   {"kernel_params", AttributeKind::reals},
                                   {"kernel_type", AttributeKind::text, ir::Attribute(std::string("LINEAR"))},
                                   {"rho", AttributeKind::reals},
                                   {"support_vectors", AttributeKind::reals},
                                   transform()};
  specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

SvmPlan::Kernel kernel_named(const std::string& name) {
  if (name == "LINEAR") return SvmPlan::Kernel::linear;
  if (name == "POLY") return SvmPlan::Kernel::poly;
  if (name == "RBF") return SvmPlan::Kernel::rbf;
  if (name == "SIGMOID") return SvmPlan::Kernel::sigmoid;
  fail(ErrorKind::invalid_model, "kernel_type is '{}', expected LINEAR, POLY, RBF or SIGMOID", name);
}

void read_classes(const AttributeReader& reader, SvmPlan& plan) {
  plan.classes = static_cast<std::int64_t>(label_count(reader));
  require(plan.classes >= 2 && plan.classes < 65536, ErrorKind::invalid_model,
          "{} class labels are given, expected 2 to 65535", plan.classes);
  const std::vector<std::int64_t> per_class = reader.integers_or_empty("vectors_per_class");
  if (!per_class.empty()) check_count("vectors_per_class", per_class.size(), plan.classes);
  for (const std::int64_t count : per_class) {
    require(count >= 0 && count < (std::int64_t{1} << 40), ErrorKind::invalid_model,
            "vectors_per_class has the entry {}", count);
    plan.vectors += count;
  }
  const std::int64_t pairs = plan.classes * (plan.classes - 1) / 2;
  check_count("prob_b", count_of(reader, "prob_b"), static_cast<std::int64_t>(count_of(reader, "prob_a")));
  plan.probabilities = plan.vectors > 0 && count_of(reader, "prob_a") > 0;
  if (plan.probabilities) check_count("prob_a", count_of(reader, "prob_a"), pairs);
  if (plan.vectors > 0) check_count("rho", count_of(reader, "rho"), pairs);
  else require(count_of(reader, "rho") >= 1, ErrorKind::invalid_model, "attribute 'rho' is missing");
}

}  // namespace

SvmPlan read_svm(const AttributeReader& reader, std::int64_t features) {
  SvmPlan plan;
  plan.kernel = kernel_named(reader.text("kernel_type"));
  post_transform_named(reader.text("post_transform"));
  if (reader.has_attribute("kernel_params") && !reader.reals("kernel_params").empty()) {
    const std::vector<float>& parameters = reader.reals("kernel_params");
    check_count("kernel_params", parameters.size(), 3);
    plan.gamma = parameters[0];
    plan.coefficient = parameters[1];
    plan.degree = parameters[2];
  }
  const bool classifier = reader.op().name == svm_classifier.name;
  if (classifier) {
    read_classes(reader, plan);
  } else {
    plan.vectors = reader.integer("n_supports");
    require(plan.vectors >= 0 && plan.vectors < (std::int64_t{1} << 40), ErrorKind::invalid_model, "n_supports is {}",
            plan.vectors);
    check_count("rho", count_of(reader, "rho"), 1);
  }
  const std::int64_t rows = classifier ? plan.classes - 1 : 1;
  if (plan.vectors > 0)
    check_count("coefficients", count_of(reader, "coefficients"), (Dim(plan.vectors) * Dim(rows)).value());
  if (features < 0) return plan;
  if (plan.vectors > 0)
    check_count("support_vectors", count_of(reader, "support_vectors"), (Dim(plan.vectors) * Dim(features)).value());
  else check_count("coefficients", count_of(reader, "coefficients"), (Dim(plan.classes) * Dim(features)).value());
  return plan;
}

// post_transform(x . coefficients[target] + intercepts[target])
const OpDef linear_regressor{
    .name = "ai.onnx.ml::LinearRegressor",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T"}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = {{"coefficients", AttributeKind::reals},
                   {"intercepts", AttributeKind::reals},
                   transform(),
                   integer_attribute("targets", 1)},
    .infer = infer_linear_regressor,
};

// The class with the largest score; coefficients for one class and two labels score (-s, s).
const OpDef linear_classifier{
    .name = "ai.onnx.ml::LinearClassifier",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T1"}},
    .outputs = {{"Y", {DType::string, DType::i64}}, {"Z", {DType::f32}}},
    .attributes = {{"classlabels_ints", AttributeKind::integers},
                   {"classlabels_strings", AttributeKind::texts},
                   {"coefficients", AttributeKind::reals, std::nullopt, true},
                   {"intercepts", AttributeKind::reals},
                   integer_attribute("multi_class", 0),
                   transform()},
    .infer = infer_linear_classifier,
};

// sum over support vectors of coefficient * kernel(x, vector), plus rho; its sign with one_class.
const OpDef svm_regressor{
    .name = "ai.onnx.ml::SVMRegressor",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T"}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = svm_attributes({integer_attribute("n_supports", 0), integer_attribute("one_class", 0)}),
    .infer = infer_svm_regressor,
};

// One decision for every pair of classes (libsvm); the class with most votes, or by probabilities where these are
// given.
const OpDef svm_classifier{
    .name = "ai.onnx.ml::SVMClassifier",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T1"}},
    .outputs = {{"Y", {DType::string, DType::i64}}, {"Z", {DType::f32}}},
    .attributes = svm_attributes({{"classlabels_ints", AttributeKind::integers},
                                  {"classlabels_strings", AttributeKind::texts},
                                  {"prob_a", AttributeKind::reals},
                                  {"prob_b", AttributeKind::reals},
                                  {"vectors_per_class", AttributeKind::integers}}),
    .infer = infer_svm_classifier,
};

}  // namespace tessera::ops
