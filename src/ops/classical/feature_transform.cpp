#include "ops/classical/feature_transform.h"

#include <cmath>

#include "ops/core/builder.h"
#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;

// Checks a list with one entry, or one per element of the last dimension.
void check_per_feature(const InferContext& context, std::string_view name, std::size_t count) {
  const Dims* x = context.dims(0);
  const Dim features = x == nullptr || x->empty() ? Dim() : x->back();
  const bool fits = count == 1 || features.may_equal(static_cast<std::int64_t>(count));
  context.check(count > 0 && fits, "attribute '{}' has {} entries, expected 1 or {}", name, count, to_string(features));
}

void set_like_input(InferContext& context, DType dtype) {
  ir::ValueType type = context.input(0);
  type.dtype = dtype;
  context.set_output(0, std::move(type));
}

void infer_scaler(InferContext& context) {
  for (const std::string_view name : {"offset", "scale"}) {
    if (context.has_attribute(name)) check_per_feature(context, name, context.reals(name).size());
  }
  set_like_input(context, DType::f32);
}

void infer_feature_transform_normalizer(InferContext& context) {
  const std::string& norm = context.text("norm");
  context.check(norm == "MAX" || norm == "L1" || norm == "L2", "norm is '{}', expected MAX, L1 or L2", norm);
  const Dims* x = context.dims(0);
  context.check(x == nullptr || x->size() == 1 || x->size() == 2, "'X' has shape {}, expected rank 1 or 2",
                x != nullptr ? to_string(*x) : "");
  set_like_input(context, DType::f32);
}

void infer_imputer(InferContext& context) {
  const bool real = is_float(context.dtype(0));
  const std::string_view name = real ? "imputed_value_floats" : "imputed_value_int64s";
  context.check(context.has_attribute(name), "attribute '{}' is missing for an input of {}", name,
                name_of(context.dtype(0)));
  check_per_feature(context, name, real ? context.reals(name).size() : context.integers(name).size());
  infer_same_as_input(context);
}

void infer_one_hot_encoder(InferContext& context) {
  const bool text = context.dtype(0) == DType::string;
  const std::string_view name = text ? "cats_strings" : "cats_int64s";
  context.check(context.has_attribute(name), "attribute '{}' is missing for an input of {}", name,
                name_of(context.dtype(0)));
  const std::size_t count = text ? context.texts(name).size() : context.integers(name).size();
  if (context.dims(0) == nullptr) return context.set_output_unknown_rank(0, DType::f32);
  Dims dims = *context.dims(0);
  dims.emplace_back(static_cast<std::int64_t>(count));
  context.set_output(0, DType::f32, std::move(dims));
}

void infer_feature_vectorizer(InferContext& context) {
  const std::vector<std::int64_t> sizes = context.integers_or_empty("inputdimensions");
  context.check(sizes.empty() || sizes.size() == context.input_count(), "inputdimensions has {} entries for {} inputs",
                sizes.size(), context.input_count());
  Dim rows, columns = 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const Dims* dims = context.dims(i);
    context.check(dims == nullptr || dims->size() == 1 || dims->size() == 2,
                  "input {} has shape {}, expected rank 1 or 2", i, dims != nullptr ? to_string(*dims) : "");
    const Dim have_rows = dims == nullptr ? Dim() : dims->size() == 2 ? (*dims)[0] : Dim(1);
    const Dim have = dims == nullptr ? Dim() : dims->back();
    context.check(rows.may_equal(have_rows), "inputs have {} and {} rows", to_string(rows), to_string(have_rows));
    context.check(sizes.empty() || have.may_equal(sizes[i]), "input {} has {} columns, but inputdimensions says {}", i,
                  to_string(have), sizes.empty() ? 0 : sizes[i]);
    if (rows.is_unknown() || have_rows.is_known()) rows = have_rows;
    columns = columns + have;
  }
  context.set_output(0, DType::f32, {rows, columns});
}

void infer_category_mapper(InferContext& context) {
  const std::size_t numbers = context.integers("cats_int64s").size(), texts = context.texts("cats_strings").size();
  context.check(numbers == texts, "cats_int64s has {} entries, cats_strings {}", numbers, texts);
  set_like_input(context, context.dtype(0) == DType::string ? DType::i64 : DType::string);
}

using Results = std::optional<std::vector<ir::ValueId>>;

// Where(x is the replaced value, imputed, x), for types that need no wider one for the comparison.
Results decompose_imputer(GraphBuilder& builder, const AttributeReader& reader, std::span<const ir::ValueId> inputs) {
  const ir::ValueId x = inputs[0];
  const DType type = builder.dtype(x);
  const Dims* dims = builder.dims(x);
  if (type == DType::i32 || dims == nullptr) return {};
  const bool real = is_float(type);
  std::vector<double> reals;
  if (real) reals.assign(reader.reals("imputed_value_floats").begin(), reader.reals("imputed_value_floats").end());
  const std::vector<std::int64_t> integers =
      real ? std::vector<std::int64_t>{} : reader.integers("imputed_value_int64s");
  const std::size_t count = real ? reals.size() : integers.size();
  // Several values for a last dimension of 1 would broadcast instead of being refused.
  if (count != 1 && (dims->empty() || !dims->back().is_known())) return {};
  const Shape shape = count == 1 ? Shape{} : Shape{static_cast<std::int64_t>(count)};
  ir::ValueId imputed, missing;
  if (real) {
    imputed = builder.cast(builder.constant(Tensor::from<double>(shape, std::span<const double>(reals))), type);
    const float replaced = reader.real("replaced_value_float");
    missing =
        std::isnan(replaced) ? builder.add("IsNaN", {x}) : builder.add("Equal", {x, builder.scalar(replaced, type)});
  } else {
    imputed = builder.constant(Tensor::from<std::int64_t>(shape, std::span<const std::int64_t>(integers)));
    missing = builder.add("Equal", {x, builder.constant(Tensor::scalar(reader.integer("replaced_value_int64")))});
  }
  return {{builder.add("Where", {missing, imputed, x})}};
}

Results decompose_feature_vectorizer(GraphBuilder& builder, const AttributeReader&,
                                     std::span<const ir::ValueId> inputs) {
  std::vector<ir::ValueId> parts;
  for (const ir::ValueId input : inputs) {
    const Dims* dims = builder.dims(input);
    if (dims == nullptr) return {};
    const bool single_row = dims->size() == 1;
    const ir::ValueId part = builder.cast(input, DType::f32);
    parts.push_back(!single_row ? part : builder.add("Unsqueeze", {part, builder.integers({0})}));
  }
  return {{builder.add("Concat", parts, {{"axis", std::int64_t{1}}})}};
}

}  // namespace

// (x - offset) * scale, with one offset and scale per feature or one for all.
const OpDef scaler{
    .name = "ai.onnx.ml::Scaler",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T"}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = {{"offset", AttributeKind::reals}, {"scale", AttributeKind::reals}},
    .infer = infer_scaler,
    .operations = operations_per_output<2>,
};

// Rows divided by their largest magnitude, the sum of their magnitudes, or their Euclidean norm; a row of zeros is
// unchanged.
const OpDef normalizer{
    .name = "ai.onnx.ml::Normalizer",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T"}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = {{"norm", AttributeKind::text, ir::Attribute(std::string("MAX"))}},
    .infer = infer_feature_transform_normalizer,
    .operations = operations_per_output<3>,
};

// Elements equal to the replaced value (NaN matches NaN) become the imputed one of their feature.
const OpDef imputer{
    .name = "ai.onnx.ml::Imputer",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T"}},
    .outputs = {{"Y", types::classical_numbers, "T"}},
    .attributes = {{"imputed_value_floats", AttributeKind::reals},
                   {"imputed_value_int64s", AttributeKind::integers},
                   {"replaced_value_float", AttributeKind::real, ir::Attribute(0.0f)},
                   {"replaced_value_int64", AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_imputer,
    .decompose = decompose_imputer,
};

// A new last axis with a 1 at the category's index; all zeros for an unknown category, or an error with zeros = 0.
const OpDef one_hot_encoder{
    .name = "ai.onnx.ml::OneHotEncoder",
    .since = 1,
    .inputs = {{"X", types::classical_numbers | types::text, "T"}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = {{"cats_int64s", AttributeKind::integers},
                   {"cats_strings", AttributeKind::texts},
                   {"zeros", AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_one_hot_encoder,
};

// Concatenates the columns of the inputs.
const OpDef feature_vectorizer{
    .name = "ai.onnx.ml::FeatureVectorizer",
    .since = 1,
    .inputs = {{"X", types::classical_numbers, "T1", variadic}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = {{"inputdimensions", AttributeKind::integers}},
    .infer = infer_feature_vectorizer,
    .decompose = decompose_feature_vectorizer,
};

// Strings to integers or back, by the pairs of cats_strings and cats_int64s.
const OpDef category_mapper{
    .name = "ai.onnx.ml::CategoryMapper",
    .since = 1,
    .inputs = {{"X", {DType::i64, DType::string}}},
    .outputs = {{"Y", {DType::i64, DType::string}}},
    .attributes = {{"cats_int64s", AttributeKind::integers, std::nullopt, true},
                   {"cats_strings", AttributeKind::texts, std::nullopt, true},
                   {"default_int64", AttributeKind::integer, ir::Attribute(std::int64_t{-1})},
                   {"default_string", AttributeKind::text, ir::Attribute(std::string("_Unused"))}},
    .infer = infer_category_mapper,
};

}  // namespace tessera::ops
