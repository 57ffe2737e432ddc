#include "cost/work.h"

#include <algorithm>
#include <cmath>

#include "cost/product.h"
#include "ops/op_table.h"
#include "ops/symbols.h"

namespace tessera::cost {
namespace {

// The type of a tensor as counted in another precision than its own: only float32 tensors change their size in memory.
ops::TensorType counted_type(const ir::ValueType& type, Precision precision) {
  const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
  if (!shape) return {};
  return {type.dtype == DType::f32 ? storage_type(precision) : type.dtype, *shape};
}

double log_size(double size) {
  return size > 0 ? std::log2(size) : 0;
}

bool is_state(const ir::Graph& graph, ir::ValueId id) {
  return graph.value(id).origin == ir::Origin::constant || graph.value(id).origin == ir::Origin::variable;
}

// Operators with one output of the shape of an input and a few operations for each element; a BatchNormalization with
// one output scales and shifts.
bool is_element_wise(const ir::Node& node, const ops::OpDef& op, std::span<const ops::TensorType> inputs,
                     const ops::TensorType& output) {
  if (op.operations == nullptr || node.outputs.size() != 1) return false;
  if (op.element_wise == ops::ElementWise::no && op.name != "BatchNormalization") return false;
  return std::ranges::any_of(inputs, [&](const ops::TensorType& input) {
    return input.shape == output.shape && input.dtype != DType::undefined;
  });
}

// Whether the node rounds its operands to bfloat16; for a chain, whether all of its stages do.
bool rounds_to_bf16(const ir::Node& node) {
  const ir::Attributes& held = ops::attributes_of_symbol(node);
  const ir::Attributes& attributes = held.empty() ? node.attributes : held;
  const auto rounded = attributes.find("precision"), stages = attributes.find("precisions");
  const auto is_bf16 = [](const std::string& precision) { return precision == "bf16"; };
  if (stages != attributes.end() && std::holds_alternative<std::vector<std::string>>(stages->second))
    return std::ranges::all_of(std::get<std::vector<std::string>>(stages->second), is_bf16);
  return rounded != attributes.end() && std::holds_alternative<std::string>(rounded->second) &&
         is_bf16(std::get<std::string>(rounded->second));
}

// Layers whose operands are X, W, R …, and their gradients.
bool is_recurrent(std::string_view op) {
  constexpr std::string_view kOps[] = {"LSTM",
                                       "GRU",
                                       "RNN",
                                       "tessera::LSTMWithGates",
                                       "tessera::GRUWithGates",
                                       "tessera::LSTMGradient",
                                       "tessera::GRUGradient",
                                       "tessera::RNNGradient"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

// The precision in which a product multiplies: int8 for integer operands, bfloat16 where the node rounds to it or where
// its data is bfloat16 and float32 was asked for, else the precision asked for.
Precision multiplied_in(const ir::Graph& graph, const ir::Node& node, Precision asked) {
  if (rounds_to_bf16(node)) return Precision::bf16;
  const DType data =
      node.inputs.empty() || !node.inputs[0].valid() ? DType::undefined : graph.value(node.inputs[0]).type.dtype;
  if (data == DType::bf16 && asked == Precision::f32) return Precision::bf16;
  return data == DType::u8 || data == DType::i8 ? Precision::int8 : asked;
}

}  // namespace

ShapeClass Work::shape_class() const {
  const double activations = cost.bytes_read + cost.bytes_written - weight_bytes;
  ShapeClass shape{log_size(cost.operations), log_size(activations), log_size(weight_bytes)};
  if (gemm) {
    shape[3] = log_size(static_cast<double>(gemm->m * gemm->count));
    shape[4] = log_size(static_cast<double>(gemm->n));
    shape[5] = log_size(static_cast<double>(gemm->k));
  } else {
    shape[3] = log_size(static_cast<double>(rows));
    shape[4] = log_size(static_cast<double>(row));
    shape[5] = log_size(static_cast<double>(rows_at_once));
  }
  if (writes_result) shape[6] = kResultDistance;
  return shape;
}

std::optional<Work> work_of(const ir::Graph& graph, ir::NodeId id, WorkPrecision precision) {
  const ir::Node& node = graph.node(id);
  if (!ir::subgraphs_of(node).empty()) return std::nullopt;
  const ops::OpDef& op = ops::op_of(node);
  Work work{.node = id, .name = node.name, .op = node.op, .product = is_product(node.op)};
  const Precision stored = work.product ? precision.product : precision.other;
  work.precision = work.product ? multiplied_in(graph, node, stored) : stored;
  std::vector<ops::TensorType> inputs, outputs;
  std::vector<const Tensor*> constants;
  for (const ir::ValueId input : node.inputs) {
    // Weights that a layer rounds are packed in bfloat16.
    const bool packed = input.valid() && rounds_to_bf16(node) && graph.constant(input) != nullptr &&
                        graph.constant(input)->shape().size() > 1;
    inputs.push_back(input.valid() ? counted_type(graph.value(input).type, packed ? Precision::bf16 : stored)
                                   : ops::TensorType{});
    constants.push_back(input.valid() ? graph.constant(input) : nullptr);
    if (input.valid() && inputs.back().dtype == DType::undefined) return std::nullopt;
    work.shapes += (input.valid() ? ir::to_string(graph.value(input).type) : "none") + " ";
  }
  work.shapes += "->";
  for (const ir::ValueId output : node.outputs) {
    outputs.push_back(output.valid() ? counted_type(graph.value(output).type, stored) : ops::TensorType{});
    if (output.valid() && outputs.back().dtype == DType::undefined) return std::nullopt;
    work.shapes += " " + (output.valid() ? ir::to_string(graph.value(output).type) : "none");
  }
  const ops::NodeView view(node, op, inputs, outputs, constants);
  work.cost = ops::cost_of(view);
  if (op.bytes_read == nullptr && !op.view) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (node.inputs[i].valid() && is_state(graph, node.inputs[i]))
        work.weight_bytes += static_cast<double>(inputs[i].bytes());
    }
  }
  // The first output of an operator on lists, such as an optimiser's step, tells nothing about the other outputs.
  const bool lists = !op.inputs.empty() && op.inputs.back().option == ops::variadic && !op.outputs.empty() &&
                     op.outputs.back().option == ops::variadic;
  if (!lists && !outputs.empty() && !outputs[0].shape.empty()) {
    work.row = outputs[0].shape.back();
    work.rows = work.row > 0 ? outputs[0].elements() / work.row : 0;
  }
  if (is_recurrent(op.name)) {
    const Shape &x = inputs[0].shape,
                &recurrence = inputs[2].shape;  // [time, batch, …] or, by the layout, [batch, time, …]
    const bool batch_first = ops::states_attribute(node, "layout") && view.integer("layout") == 1;
    work.rows_at_once = x[batch_first ? 0 : 1];
    work.rows = x[0] * x[1] * recurrence[0];
    work.row = recurrence[2];
  }
  const bool has_result = !outputs.empty() && outputs[0].dtype != DType::undefined;  // a file may leave it out
  if (has_result) work.gemm = product_of(graph, view);
  work.writes_result = std::ranges::any_of(node.outputs, [&](ir::ValueId output) {
    return output.valid() && std::ranges::find(graph.outputs(), output) != graph.outputs().end();
  });
  work.element_wise = !outputs.empty() && is_element_wise(node, op, inputs, outputs[0]);
  return work;
}

std::vector<Work> work_of(const ir::Graph& graph, WorkPrecision precision, std::int64_t* unknown) {
  std::vector<Work> list;
  for (const ir::NodeId id : graph.order()) {
    if (std::optional<Work> work = work_of(graph, id, precision)) list.push_back(std::move(*work));
    else if (unknown != nullptr) ++*unknown;
  }
  return list;
}

}  // namespace tessera::cost
