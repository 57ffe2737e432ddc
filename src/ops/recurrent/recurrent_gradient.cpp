#include "ops/recurrent/recurrent_gradient.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/product.h"
#include "ops/op_table.h"
#include "ops/recurrent/recurrent.h"

namespace tessera::ops {
namespace {

constexpr std::string_view kWithGates = "WithGates";
constexpr std::size_t kLengths = 4;  // input sequence_lens, which has no gradient

// By input of LSTM.
constexpr std::string_view kGradientNames[] = {"dX", "dW", "dR", "dB", "", "dinitial_h", "dinitial_c", "dP"};

const Parameter kGates{"gates", types::floats, "T", optional};

bool is_lstm(const OpDef& op) {
  return gates_of(op) == 4;
}

// The output that has the gates.
std::size_t gates_output(const OpDef& op) {
  return is_lstm(op) ? 3 : 2;
}

void infer_with_gates(InferContext& context) {
  RecurrentShapes shapes = check_recurrent_operands(context);
  infer_recurrent(context);
  shapes.step[3] = shapes.step[3] * ir::Dim(kept_gates(context.op()));
  context.set_output(gates_output(context.op()), context.dtype(0), std::move(shapes.step));
}

// Gradients have the shapes of the operands.
void infer_recurrent_gradient(InferContext& context) {
  const RecurrentShapes shapes = check_recurrent_operands(context);
  const RecurrentGradientInputs inputs = recurrent_gradient_inputs(context.op());
  ir::Dims kept = shapes.step;
  kept[3] = kept[3] * ir::Dim(gates_of(context.op()) + 1);
  check_recurrent_operand(context, inputs.y, shapes.y);
  check_recurrent_operand(context, inputs.dy, shapes.y);
  check_recurrent_operand(context, inputs.dh, shapes.state);
  check_recurrent_operand(context, inputs.gates, kept);
  check_recurrent_operand(context, inputs.dc, shapes.state);
  std::size_t output = 0;
  for (std::size_t i = 0; i < inputs.operands; ++i) {
    if (i == kLengths) continue;
    context.check(context.has_input(i) || !context.wants_output(output),
                  "the gradient of the absent input '{}' is asked for", context.op().inputs[i].name);
    if (context.has_input(i)) context.set_output(output, context.input(i));
    ++output;
  }
}

// Both products of the forward direction, of data and of weights.
double gradient_operations(const NodeView& view) {
  const Shape& x = view.input(0).shape;
  const double steps = static_cast<double>(x[0]) * static_cast<double>(x[1]);
  return 4 * steps * static_cast<double>(view.input(1).elements() + view.input(2).elements());
}

OpDef gradient_of(std::string_view name, std::vector<Parameter> inputs, std::initializer_list<Parameter> more,
                  std::vector<AttributeSpec> attributes) {
  std::vector<Parameter> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i != kLengths) outputs.push_back({kGradientNames[i], types::floats, "T", optional});
  }
  inputs.insert(inputs.end(), more);
  return {.name = name,
          .since = 1,
          .product = several_products,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .attributes = std::move(attributes),
          .infer = infer_recurrent_gradient,
          .operations = gradient_operations};
}

Parameter real(std::string_view name, Parameter::Option option = Parameter::Option::optional) {
  return {name, types::floats, "T", option};
}
constexpr auto kRequired = Parameter::Option::required;

void check_supported(const GradientContext& c) {
  require(kept_gates(c.op()) == 0 || !c.has_gradient(gates_output(c.op())), ErrorKind::unsupported,
          "output 'gates' is used");
  const RecurrentPlan plan = read_recurrent(c);
  require(!std::isfinite(plan.clip), ErrorKind::unsupported, "it clips what its activations get");
  const bool lstm = is_lstm(c.op()), rnn = gates_of(c.op()) == 1;
  require(!lstm || c.integer("input_forget") == 0, ErrorKind::unsupported, "it couples the input and forget gates");
  const std::size_t count = rnn ? 1 : lstm ? 3 : 2;
  for (std::size_t i = 0; i < plan.activations.size(); ++i) {
    const GateActivationKind kind = plan.activations[i].kind;
    const bool usual = kind == (!rnn && i % count == 0 ? GateActivationKind::sigmoid : GateActivationKind::tanh);
    require(usual || (rnn && kind == GateActivationKind::relu), ErrorKind::unsupported,
            "it has activations other than the default");
  }
}

// The forward node, changed to return Y and its gates.
const ir::Node& keep_gates(GradientContext& c) {
  ir::Graph& graph = c.builder().graph();
  ir::NodeId id;
  for (const ir::ValueId output : c.node().outputs) {
    if (output.valid()) id = graph.value(output).producer;
  }
  const std::size_t gates = gates_output(c.op());
  if (gates_of(c.op()) != 1 && kept_gates(c.op()) == 0)
    graph.node(id).op = "tessera::" + graph.node(id).op + std::string(kWithGates);
  if (graph.node(id).outputs.empty() || !graph.node(id).outputs[0].valid()) graph.want_output(id, 0);
  const bool has_gates = graph.node(id).outputs.size() > gates && graph.node(id).outputs[gates].valid();
  if (gates_of(c.op()) != 1 && !has_gates) graph.want_output(id, gates);
  infer_node_in_place(graph, id);
  return graph.node(id);
}

}  // namespace

std::int64_t kept_gates(const OpDef& op) {
  return !op.name.ends_with(kWithGates) ? 0 : is_lstm(op) ? 5 : 4;
}

void recurrent_gradient(GradientContext& c) {
  check_supported(c);
  const bool lstm = is_lstm(c.op()), rnn = gates_of(c.op()) == 1;
  const ir::Node forward = keep_gates(c);
  ir::Graph& graph = c.builder().graph();
  const std::string name = rnn ? "tessera::RNNGradient" : lstm ? "tessera::LSTMGradient" : "tessera::GRUGradient";
  const OpDef& op = *find_op(name);
  const RecurrentGradientInputs inputs = recurrent_gradient_inputs(op);
  ir::Node node{.op = name,
                .name = graph.fresh_name("gradient/" + name),
                .inputs = std::vector<ir::ValueId>(op.inputs.size()),
                .attributes = forward.attributes};
  std::copy_n(forward.inputs.begin(), std::min(inputs.operands, forward.formal_inputs()), node.inputs.begin());
  node.inputs[inputs.y] = forward.outputs[0];
  if (!rnn) node.inputs[inputs.gates] = forward.outputs[gates_output(c.op())];
  const std::size_t gradients[] = {inputs.dy, inputs.dh, inputs.dc};
  for (std::size_t i = 0; i < (lstm ? 3 : 2); ++i)
    if (c.has_gradient(i)) node.inputs[gradients[i]] = c.gradient(i).id();
  for (std::size_t i = 0; i < inputs.operands; ++i) {
    if (i != kLengths)
      node.outputs.push_back(c.wants(i) ? graph.add_value(graph.fresh_name(node.name)) : ir::ValueId{});
  }
  const std::vector<ir::ValueId> outputs = node.outputs;
  const std::vector<ir::ValueType> types = infer_node(graph, node, [&](ir::ValueId id) { return graph.constant(id); });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].valid()) graph.value(outputs[i]).type = types[i];
  }
  graph.add_node(std::move(node));
  std::size_t output = 0;
  for (std::size_t i = 0; i < inputs.operands; ++i) {
    if (i == kLengths) continue;
    if (c.wants(i)) c.set(i, {c.builder(), outputs[output]});
    ++output;
  }
}

RecurrentGradientInputs recurrent_gradient_inputs(const OpDef& op) {
  const std::size_t gates = static_cast<std::size_t>(gates_of(op)), operands = gates == 4 ? 8 : 6;
  return {operands, operands, operands + 1, operands + 2, operands + 3, operands + 4};
}

// LSTM that also returns its gates: output `gates` is [directions, length, batch, 5 · hidden] with i, o, f, c after
// their activations and the cell state C; zeros behind the end of a sequence.
const OpDef lstm_with_gates{
    .name = "tessera::LSTMWithGates",
    .since = 1,
    .product = several_products,
    .inputs = lstm_inputs(),
    .outputs = {{"Y", types::floats, "T", optional},
                {"Y_h", types::floats, "T", optional},
                {"Y_c", types::floats, "T", optional},
                kGates},
    .attributes = lstm_attributes(),
    .infer = infer_with_gates,
    .operations = recurrent_operations,
    .gradient = recurrent_gradient,
};

// GRU that also returns its gates: output `gates` is [directions, length, batch, 4 · hidden] with z, r, h after their
// activations and, with linear_before_reset, Rh H' + Rbh, else r ⊙ H'.
const OpDef gru_with_gates{
    .name = "tessera::GRUWithGates",
    .since = 1,
    .product = several_products,
    .inputs = gru_inputs(),
    .outputs = {{"Y", types::floats, "T", optional}, {"Y_h", types::floats, "T", optional}, kGates},
    .attributes = gru_attributes(),
    .infer = infer_with_gates,
    .operations = recurrent_operations,
    .gradient = recurrent_gradient,
};

// Backpropagation through time (Werbos, "Backpropagation through time: what it does and how to do it", Proceedings of
// the IEEE 78, 1990): computes the gradients of the operands from those of Y, Y_h and Y_c. Operands that a layer does
// not have are absent. Gates are those of LSTMWithGates and GRUWithGates.
const OpDef rnn_gradient = gradient_of("tessera::RNNGradient", gru_inputs(),
                                       {real("Y", kRequired), real("dY"), real("dY_h")}, rnn_attributes());
const OpDef gru_gradient =
    gradient_of("tessera::GRUGradient", gru_inputs(),
                {real("Y", kRequired), real("dY"), real("dY_h"), real("gates", kRequired)}, gru_attributes());
const OpDef lstm_gradient = gradient_of(
    "tessera::LSTMGradient", lstm_inputs(),
    {real("Y", kRequired), real("dY"), real("dY_h"), real("gates", kRequired), real("dY_c")}, lstm_attributes());

}  // namespace tessera::ops
