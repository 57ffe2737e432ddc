#include "ops/recurrent/recurrent.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "ops/core/check_operand.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"
#include "ops/recurrent/recurrent_gradient.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

struct ActivationName {
  std::string_view name;  // in lower case
  GateActivationKind kind;
  bool has_alpha, has_beta;
  float alpha, beta;
};

// Parameters default to those of the ONNX operator of the same name.
constexpr ActivationName kActivations[] = {
    {"affine", GateActivationKind::affine, true, true, 1, 0},
    {"relu", GateActivationKind::relu, false, false, 0, 0},
    {"leakyrelu", GateActivationKind::leaky_relu, true, false, 0.01f, 0},
    {"thresholdedrelu", GateActivationKind::thresholded_relu, true, false, 1, 0},
    {"tanh", GateActivationKind::tanh, false, false, 0, 0},
    {"sigmoid", GateActivationKind::sigmoid, false, false, 0, 0},
    {"hardsigmoid", GateActivationKind::hard_sigmoid, true, true, 0.2f, 0.5f},
    {"scaledtanh", GateActivationKind::scaled_tanh, true, true, 1, 1},
    {"elu", GateActivationKind::elu, true, false, 1, 0},
    {"softsign", GateActivationKind::softsign, false, false, 0, 0},
    {"softplus", GateActivationKind::softplus, false, false, 0, 0},
};

const ActivationName& activation_named(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const ActivationName& activation : kActivations) {
    if (activation.name == lower) return activation;
  }
  fail(ErrorKind::invalid_model, "unknown activation '{}'", name);
}

std::vector<float> reals_or_empty(const AttributeReader& reader, std::string_view name) {
  return reader.has_attribute(name) ? reader.reals(name) : std::vector<float>{};
}

// The named activations take their parameters from the two lists in order, as far as the lists reach.
std::vector<GateActivation> read_activations(const AttributeReader& reader, std::size_t count) {
  const std::vector<std::string>& names = reader.texts("activations");
  require(names.size() >= count, ErrorKind::invalid_model, "{} activations are given, expected {}", names.size(),
          count);
  const std::vector<float> alphas = reals_or_empty(reader, "activation_alpha");
  const std::vector<float> betas = reals_or_empty(reader, "activation_beta");
  std::size_t alpha = 0, beta = 0;
  std::vector<GateActivation> result;
  for (std::size_t i = 0; i < count; ++i) {
    const ActivationName& activation = activation_named(names[i]);
    result.push_back({activation.kind, activation.alpha, activation.beta});
    if (activation.has_alpha && alpha < alphas.size()) result.back().alpha = alphas[alpha++];
    if (activation.has_beta && beta < betas.size()) result.back().beta = betas[beta++];
  }
  return result;
}

ir::Dim hidden_of(const InferContext& context) {
  if (context.has_attribute("hidden_size")) {
    const std::int64_t size = context.integer("hidden_size");
    context.check(size >= 1, "hidden_size is {}, expected at least 1", size);
    return size;
  }
  const ir::Dims* recurrence = context.dims(2);
  context.check(recurrence == nullptr || recurrence->size() == 3, "'R' has shape {}, expected rank 3",
                text_of(recurrence));
  return recurrence != nullptr ? (*recurrence)[2] : ir::Dim();
}

}  // namespace

RecurrentShapes check_recurrent_operands(const InferContext& context) {
  const RecurrentPlan plan = read_recurrent(context);
  const ir::Dim directions = static_cast<std::int64_t>(plan.directions), hidden = hidden_of(context);
  const ir::Dim rows = hidden * ir::Dim(gates_of(context.op()));
  const ir::Dims x = context.dims(0) != nullptr ? *context.dims(0) : ir::Dims(3);
  context.check(x.size() == 3, "'X' has shape {}, expected rank 3", text_of(x));
  const ir::Dim &length = x[plan.batch_first ? 1 : 0], &batch = x[plan.batch_first ? 0 : 1];
  const ir::Dims state = plan.batch_first ? ir::Dims{batch, directions, hidden} : ir::Dims{directions, batch, hidden};
  check_recurrent_operand(context, 1, {directions, rows, x[2]});
  check_recurrent_operand(context, 2, {directions, rows, hidden});
  check_recurrent_operand(context, 3, {directions, rows * ir::Dim(2)});
  check_recurrent_operand(context, 4, {batch});
  check_recurrent_operand(context, 5, state);
  if (gates_of(context.op()) == 4) {
    check_recurrent_operand(context, 6, state);
    check_recurrent_operand(context, 7, {directions, hidden * ir::Dim(3)});
  }
  return {plan.batch_first ? ir::Dims{batch, length, directions, hidden} : ir::Dims{length, directions, batch, hidden},
          state,
          {directions, length, batch, hidden}};
}

void infer_recurrent(InferContext& context) {
  const RecurrentShapes shapes = check_recurrent_operands(context);
  context.set_output(0, context.dtype(0), shapes.y);
  context.set_output(1, context.dtype(0), shapes.state);
  context.set_output(2, context.dtype(0), shapes.state);
}

// Every step multiplies by W and R.
double recurrent_operations(const NodeView& view) {
  const Shape& x = view.input(0).shape;
  const double steps = static_cast<double>(x[0]) * static_cast<double>(x[1]);
  return 2 * steps * static_cast<double>(view.input(1).elements() + view.input(2).elements());
}

namespace {

std::vector<Parameter> inputs_with(std::initializer_list<Parameter> more) {
  std::vector<Parameter> inputs{{"X", types::floats, "T"},
                                {"W", types::floats, "T"},
                                {"R", types::floats, "T"},
                                {"B", types::floats, "T", optional},
                                {"sequence_lens", {DType::i32}, "", optional},
                                {"initial_h", types::floats, "T", optional}};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return inputs;
}

std::vector<AttributeSpec> attributes_with(std::initializer_list<AttributeSpec> more) {
  std::vector<AttributeSpec> specs{{"clip", AttributeKind::real},
                                   {"activation_alpha", AttributeKind::reals},
                                   {"activation_beta", AttributeKind::reals},
                                   {"hidden_size", AttributeKind::integer},
                                   {"layout", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                                   {"direction", AttributeKind::text, ir::Attribute(std::string("forward"))}};
  specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

constexpr GateActivationKind kRnnDefaults[] = {GateActivationKind::tanh};
constexpr GateActivationKind kGruDefaults[] = {GateActivationKind::sigmoid, GateActivationKind::tanh};
constexpr GateActivationKind kLstmDefaults[] = {GateActivationKind::sigmoid, GateActivationKind::tanh,
                                                GateActivationKind::tanh};

const Parameter kY{"Y", types::floats, "T", optional};
const Parameter kYh{"Y_h", types::floats, "T", optional};

}  // namespace

std::vector<Parameter> gru_inputs() {
  return inputs_with({});
}
std::vector<Parameter> lstm_inputs() {
  return inputs_with({{"initial_c", types::floats, "T", optional}, {"P", types::floats, "T", optional}});
}
std::vector<AttributeSpec> rnn_attributes() {
  return attributes_with(
      {{"activations", AttributeKind::texts, ir::Attribute(std::vector<std::string>{"Tanh", "Tanh"})}});
}
std::vector<AttributeSpec> gru_attributes() {
  return attributes_with({{"activations", AttributeKind::texts}, integer_attribute("linear_before_reset")});
}
std::vector<AttributeSpec> lstm_attributes() {
  return attributes_with({{"activations", AttributeKind::texts}, integer_attribute("input_forget")});
}

RecurrentPlan read_recurrent(const AttributeReader& reader, std::span<const GateActivationKind> default_activations) {
  RecurrentPlan plan;
  const std::string& direction = reader.text("direction");
  require(direction == "forward" || direction == "reverse" || direction == "bidirectional", ErrorKind::invalid_model,
          "direction is '{}', expected forward, reverse or bidirectional", direction);
  plan.directions = direction == "bidirectional" ? 2 : 1;
  plan.first_is_reverse = direction == "reverse";
  const bool has_layout = std::any_of(reader.op().attributes.begin(), reader.op().attributes.end(),
                                      [](const AttributeSpec& spec) { return spec.name == "layout"; });
  const std::int64_t layout = has_layout ? reader.integer("layout") : 0;
  require(layout == 0 || layout == 1, ErrorKind::invalid_model, "layout is {}, expected 0 or 1", layout);
  plan.batch_first = layout == 1;
  if (reader.has_attribute("clip")) {
    plan.clip = reader.real("clip");
    require(plan.clip > 0, ErrorKind::invalid_model, "clip is {}, expected more than 0", plan.clip);
  }
  if (reader.has_attribute("activations")) {
    plan.activations = read_activations(reader, plan.directions * default_activations.size());
  } else {
    for (std::size_t d = 0; d < plan.directions; ++d) {
      for (const GateActivationKind kind : default_activations) plan.activations.push_back({kind, 0, 0});
    }
  }
  return plan;
}

RecurrentPlan read_recurrent(const AttributeReader& reader) {
  const std::int64_t gates = gates_of(reader.op());
  if (gates == 1) return read_recurrent(reader, kRnnDefaults);
  if (gates == 3) return read_recurrent(reader, kGruDefaults);
  return read_recurrent(reader, kLstmDefaults);
}

void check_recurrent_operand(const InferContext& context, std::size_t input, const ir::Dims& expected) {
  if (!context.has_input(input) || context.dims(input) == nullptr) return;
  const ir::Dims& dims = *context.dims(input);
  bool fits = dims.size() == expected.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) fits = dims[i].may_equal(expected[i]);
  context.check(fits, "'{}' has shape {}, expected {}", context.op().inputs[input].name, text_of(dims),
                text_of(expected));
}

std::int64_t gates_of(const OpDef& op) {
  const auto is = [&](std::string_view name) { return op.name.find(name) != std::string_view::npos; };
  return is("RNN") ? 1 : is("GRU") ? 3 : 4;
}

// H = f(W x + R H' + Wb + Rb)
const OpDef rnn{
    .name = "RNN",
    .since = 22,
    .product = several_products,
    .inputs = gru_inputs(),
    .outputs = {kY, kYh},
    .attributes = rnn_attributes(),
    .infer = infer_recurrent,
    .operations = recurrent_operations,
    .gradient = recurrent_gradient,
};

// Gates in the order z, r, h:
// z = f(Wz x + Rz H' + b), r = f(Wr x + Rr H' + b), H = (1 - z) h + z H' with
// h = g(Wh x + Wbh + Rh (r H') + Rbh), or with linear_before_reset g(Wh x + Wbh + r (Rh H' + Rbh))
const OpDef gru{
    .name = "GRU",
    .since = 22,
    .product = several_products,
    .inputs = gru_inputs(),
    .outputs = {kY, kYh},
    .attributes = gru_attributes(),
    .infer = infer_recurrent,
    .operations = recurrent_operations,
    .gradient = recurrent_gradient,
};

// Gates in the order i, o, f, c; peepholes P in the order i, o, f:
// i = f(.. + Pi C'), f = f(.. + Pf C') (or 1 - i with input_forget), C = f C' + i g(..), o = f(.. + Po C), H = o h(C)
const OpDef lstm{
    .name = "LSTM",
    .since = 22,
    .product = several_products,
    .inputs = lstm_inputs(),
    .outputs = {kY, kYh, {"Y_c", types::floats, "T", optional}},
    .attributes = lstm_attributes(),
    .infer = infer_recurrent,
    .operations = recurrent_operations,
    .gradient = recurrent_gradient,
};

}  // namespace tessera::ops
