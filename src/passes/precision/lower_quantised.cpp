// Replaces operators between DequantizeLinear and QuantizeLinear by operators on the integers:
//   Conv, MatMul and Gemm with 8-bit weights  tessera::QuantisedConv, tessera::QuantisedLinear; a result that is not
//                                             quantised again stays real
//   QLinearConv                               tessera::QuantisedConv
//   ConvInteger and the operators that convert
//   its sums to real numbers                  tessera::QuantisedConv with a real result; depthwise ones Conv
//   Add of two quantised tensors              com.microsoft::QLinearAdd
//   MaxPool, Reshape, Transpose, others that
//   only move numbers, to the same scale      themselves, on 8-bit data
// Signed activations are first converted to unsigned ones, which is what integer units multiply with signed weights:
// the same numbers with a zero point 128 higher. Only as far as the device has kernels; other operators run as written,
// and weights that no operator takes as integers are dequantised here, once.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "ops/convolutions/channels_last.h"
#include "ops/core/builder.h"
#include "ops/quantised/quantised_layers.h"
#include "passes/pass.h"
#include "passes/patterns/integer_sums.h"
#include "passes/patterns/quantised_operands.h"
#include "passes/patterns/quantised_weights.h"
#include "passes/rewriter.h"
#include "passes/simplify/fold_constants.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class Lowering {
 public:
  Lowering(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), builder_(graph_), context_(context) {}

  ir::Graph run() {
    const std::vector<NodeId> all = graph_.order();
    const bool any = std::any_of(all.begin(), all.end(), [&](NodeId id) {
      const std::string& op = graph_.node(id).op;
      return op == "DequantizeLinear" || op == "QLinearConv" || op == "ConvInteger";
    });
    if (!any) return std::move(graph_);
    if (context_.keeps_composite) {
      uses_ = graph_.compute_uses();
      for (const NodeId id : all) make_unsigned(id);
      for (const NodeId id : all) {
        if (!graph_.node(id).op.empty()) lower(id);
      }
      graph_.sort_topologically();
      graph_.remove_dead_and_compact();
    }
    return fold_all_constants(std::move(graph_), context_);
  }

 private:
  // Converts a signed tensor that is dequantised by all of its users to unsigned.
  void make_unsigned(NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.op != "QuantizeLinear" || !has_input(node, 2) || !operands_.is_by_tensor(node) ||
        operands_.single(node.inputs[2])->dtype() != DType::i8)
      return;
    const ValueId bytes = node.outputs[0];
    if (graph_.is_output(bytes) || node.attributes.contains("output_dtype")) return;
    const std::vector<NodeId>& users = uses_[static_cast<std::size_t>(bytes.index)];
    const bool fits = std::all_of(users.begin(), users.end(), [&](NodeId user) {
      const ir::Node& use = graph_.node(user);
      return use.op == "DequantizeLinear" && use.inputs[0] == bytes && operands_.is_by_tensor(use) &&
             (!has_input(use, 2) || operands_.single(use.inputs[2])->dtype() == DType::i8);
    });
    if (!fits) return;
    graph_.node(id).inputs[2] = raised(node.inputs[2]);
    graph_.value(bytes).type.dtype = DType::u8;
    for (const NodeId user : users) {
      ir::Node& use = graph_.node(user);
      use.inputs.resize(3);
      use.inputs[2] = raised(use.inputs[2]);
    }
  }

  // The zero point of the same numbers as u8.
  ValueId raised(ValueId zero) {
    const int value = zero.valid() ? *operands_.single(zero)->data<std::int8_t>() : 0;
    return builder_.scalar(value + 128, DType::u8);
  }

  void lower(NodeId id) {
    const ir::Node node = graph_.node(id);
    // Inference may reject a node that it accepted before, because more is known by now; the error is left to the run.
    if_legal([&] {
      builder_.set_name_prefix(node.name.empty() ? "" : node.name + "/");
      if (node.op == "Conv") conv(node);
      else if (node.op == "QLinearConv") q_linear_conv(node);
      else if (node.op == "ConvInteger") conv_integer(node);
      else if (node.op == "MatMul" || node.op == "Gemm") product(node);
      else if (node.op == "Add") add(node);
      else if (moves_quantised(node)) move(node);
      return true;
    });
  }

  // The result of a layer: the activation behind it, as far as it is fused, and either the quantisation behind that or
  // a real result.
  struct Result {
    ir::Attributes activation;
    std::vector<ValueId> quantisation;  // scale and zero point, or none
    NodeId last;                        // the last fused node, whose output the layer gives
  };
  Result result(NodeId id) const {
    Result found{{}, {}, id};
    if (const std::optional<NodeId> next = operands_.follower(graph_.node(id).outputs[0]);
        next && graph_.node(*next).op == "Relu") {
      found.activation.emplace("activation", std::string("Relu"));
      found.last = *next;
    }
    if (const std::optional<NodeId> quantise = operands_.quantising(graph_.node(found.last).outputs[0])) {
      found.quantisation = {graph_.node(*quantise).inputs[1], graph_.node(*quantise).inputs[2]};
      found.last = *quantise;
    } else if (!found.activation.empty()) {
      return {{}, {}, id};
    }
    return found;
  }

  // Adds the operator, if the device has a kernel for it; returns its result.
  std::optional<ValueId> place(std::string op, const Quantised& x, const QuantisedWeights& w, ValueId bias,
                               const Result& result, ir::Attributes attributes) {
    attributes.insert(result.activation.begin(), result.activation.end());
    std::vector<ValueId> inputs{x.bytes, w.bytes, bias, x.scale, x.zero, w.scale};
    inputs.insert(inputs.end(), result.quantisation.begin(), result.quantisation.end());
    if (w.zero.valid()) {
      inputs.resize(ops::QuantisedLayerInputs::weights_zero);
      inputs.push_back(w.zero);
    }
    const ValueId y = builder_.add(std::move(op), std::move(inputs), std::move(attributes));
    if (context_.keeps_composite(graph_, graph_.node(graph_.value(y).producer))) return y;
    return std::nullopt;  // it is dead now, as nobody uses it
  }

  // Replaces the output of the last fused node by `value`, through a Transpose if `transposed` is not empty.
  void give(const Result& result, ValueId value, const std::vector<std::int64_t>& transposed = {}) {
    const std::vector<ValueId> outputs = graph_.node(result.last).outputs;
    const DType dtype = graph_.value(value).type.dtype;
    ir::Node node{"Transpose", "", {value}, {}, {{"perm", transposed}}, 0};
    if (transposed.empty()) {
      const NodeId made = graph_.value(value).producer;
      node = graph_.node(made);
      graph_.remove_node(made);
    }
    node.outputs = outputs;
    graph_.replace_node(result.last, std::move(node));
    graph_.value(outputs[0]).type.dtype = dtype;
  }

  void conv(const ir::Node& node) {
    const std::optional<Quantised> x = operands_.dequantised(node.inputs[0]);
    const std::optional<QuantisedWeights> w = operands_.weights(node.inputs[1], 0);
    const std::optional<ValueId> b = operands_.bias(node, 2);
    if (x && w && b) convolve(node, *x, *w, *b, result(graph_.value(node.outputs[0]).producer));
  }

  // Lowers QLinearConv, if its scales are constants.
  void q_linear_conv(const ir::Node& node) {
    constexpr std::size_t kX = 0, kW = 3, kY = 6, kBias = 8;
    for (const std::size_t i : {kX + 1, kX + 2, kY, kY + 1}) {
      if (operands_.single(node.inputs[i]) == nullptr) return;
    }
    const std::optional<QuantisedWeights> w =
        signed_weights(builder_, node.inputs[kW], node.inputs[kW + 1], node.inputs[kW + 2]);
    if (!w || w->zero.valid()) return;
    const ValueId bias = has_input(node, kBias)
                             ? real_bias(node.inputs[kBias], *operands_.single(node.inputs[kX + 1])->data<float>(),
                                         *graph_.constant(w->scale))
                             : ValueId{};
    if (has_input(node, kBias) && !bias.valid()) return;
    const Quantised x{node.inputs[kX], node.inputs[kX + 1], node.inputs[kX + 2]};
    const Result found{{}, {node.inputs[kY], node.inputs[kY + 1]}, graph_.value(node.outputs[0]).producer};
    if (convolve(node, x, *w, bias, found) || graph_.constant(w->bytes)->rank() < 3) return;
    const ValueId real = builder_.add("Conv", real_operands(x, *w, bias), node.attributes);
    graph_.replace_node(
        found.last, {"QuantizeLinear", node.name, {real, node.inputs[kY], node.inputs[kY + 1]}, node.outputs, {}, 0});
  }

  // A bias in units of x_scale w_scale as real numbers; invalid when it is not constant.
  ValueId real_bias(ValueId bias, float x_scale, const Tensor& w_scales) {
    const Tensor* units = graph_.constant(bias);
    if (units == nullptr || !units->has_data() || units->shape().size() != 1) return {};
    Tensor real(DType::f32, units->shape());
    for (std::int64_t i = 0; i < real.elements(); ++i) {
      const double scale =
          static_cast<double>(x_scale) * static_cast<double>(w_scales.data<float>()[w_scales.elements() == 1 ? 0 : i]);
      real.mutable_data<float>()[i] = static_cast<float>(scale * units->data<std::int32_t>()[i]);
    }
    return builder_.constant(std::move(real));
  }

  // Lowers ConvInteger with the operators that convert its sums to real numbers.
  void conv_integer(const ir::Node& node) {
    const Tensor* weights = graph_.constant(node.inputs[1]);
    const ir::ValueType& x = graph_.value(node.inputs[0]).type;
    if (weights == nullptr || weights->rank() < 3 || !x.dims ||
        x.dims->size() != static_cast<std::size_t>(weights->rank()))
      return;
    const std::int64_t outputs = weights->shape()[0];
    const auto sums = find_integer_sums(graph_, operands_, node.outputs[0], outputs);
    if (!sums) return;
    std::optional<QuantisedWeights> w = signed_weights(builder_, node.inputs[1], vector(sums->scale()),
                                                       has_input(node, 3) ? node.inputs[3] : ValueId{});
    if (!w) return;
    if (w->zero.valid()) {
      w->scale = repeated(w->scale, w->zero, outputs);
      w->zero = repeated(w->zero, w->scale, outputs);
    }
    const Quantised data{node.inputs[0], sums->data_scale.valid() ? sums->data_scale : builder_.scalar(1.0f),
                         has_input(node, 2) ? node.inputs[2] : ValueId{}};
    const ValueId bias = bias_of(*sums);
    if (!convolve(node, data, *w, bias, {{}, {}, sums->last})) convolve_reals(node, data, *w, bias, sums->last);
  }

  // A constant of f32 numbers, as a scalar if they are all equal.
  ValueId vector(const std::vector<double>& numbers) {
    if (std::ranges::all_of(numbers, [&](double each) { return each == numbers[0]; }))
      return builder_.scalar(numbers.empty() ? 1.0 : numbers[0]);
    return builder_.constant(channel_constant(numbers, 0, 1));
  }

  // The scalar repeated to the length of the vector `like`.
  ValueId repeated(ValueId value, ValueId like, std::int64_t outputs) {
    const Tensor& given = *graph_.constant(value);
    if (given.rank() != 0 || graph_.constant(like)->rank() == 0) return value;
    Tensor all(given.dtype(), {outputs});
    for (std::int64_t i = 0; i < outputs; ++i)
      std::memcpy(static_cast<std::byte*>(all.mutable_raw()) + i * given.bytes(), given.raw(),
                  static_cast<std::size_t>(given.bytes()));
    return builder_.constant(std::move(all));
  }

  // The addend of the sums, as a vector of real numbers; an invalid value for none.
  ValueId bias_of(const IntegerSums& sums) {
    const auto constant = [&](const std::vector<double>& numbers) {
      return builder_.constant(channel_constant(numbers, 0, 1));
    };
    if (!sums.integers.valid()) return sums.behind.shifts() ? constant(sums.behind.shift) : ValueId{};
    ValueId added = builder_.add("Cast", {sums.integers}, {{"to", std::int64_t{1}}});
    if (sums.unit.valid()) added = builder_.add("Mul", {added, sums.unit});
    added = builder_.add("Reshape", {added, builder_.integers({-1})});
    if (sums.behind.scales()) added = builder_.add("Mul", {added, constant(sums.behind.scale)});
    if (sums.behind.shifts()) added = builder_.add("Add", {added, constant(sums.behind.shift)});
    return added;
  }

  // Convolves dequantised operands, for layers that no integer kernel takes.
  void convolve_reals(const ir::Node& node, const Quantised& x, const QuantisedWeights& w, ValueId bias, NodeId last) {
    graph_.replace_node(last,
                        {"Conv", node.name, real_operands(x, w, bias), graph_.node(last).outputs, node.attributes, 0});
  }
  std::vector<ValueId> real_operands(const Quantised& x, const QuantisedWeights& w, ValueId bias) {
    std::vector<ValueId> data{x.bytes, x.scale}, operands;
    if (x.zero.valid()) data.push_back(x.zero);
    operands = {builder_.add("DequantizeLinear", std::move(data)), builder_.constant(real_weights(graph_, w))};
    if (bias.valid()) operands.push_back(bias);
    return operands;
  }

  // Adds the QuantisedConv; false if there is no kernel for it.
  bool convolve(const ir::Node& node, const Quantised& x, const QuantisedWeights& w, ValueId bias,
                const Result& found) {
    const Shape& shape = graph_.constant(w.bytes)->shape();
    const std::size_t rank = shape.size();
    // Rejects groups that kernels reject once sizes of the data are known.
    const auto group = node.attributes.find("group");
    const std::int64_t groups = group == node.attributes.end() ? 1 : std::get<std::int64_t>(group->second);
    constexpr std::int64_t kFewOutputs = 8;
    if (rank < 3) return false;
    const bool depthwise = !found.quantisation.empty() && rank <= 4 && shape[1] == 1 && shape[0] == groups &&
                           graph_.value(x.bytes).type.dtype == DType::u8;
    if (groups < 1 || (groups > 1 && !depthwise && shape[0] / groups < kFewOutputs)) return false;
    Quantised moved = x;
    moved.bytes = builder_.add("Transpose", {x.bytes}, {{"perm", ops::to_channels_last(rank)}});
    const std::optional<ValueId> y = place("tessera::QuantisedConv", moved, w, bias, found, node.attributes);
    if (y) give(found, *y, ops::to_channels_first(rank));
    return y.has_value();
  }

  static bool is_integer(const ir::Node& node, const char* name, std::int64_t value, std::int64_t otherwise) {
    const auto given = node.attributes.find(name);
    return (given == node.attributes.end() ? otherwise : std::get<std::int64_t>(given->second)) == value;
  }
  static bool is_one(const ir::Node& node, const char* name) {
    const auto given = node.attributes.find(name);
    return given == node.attributes.end() || std::get<float>(given->second) == 1.0f;
  }

  void product(const ir::Node& node) {
    const bool gemm = node.op == "Gemm", turned = gemm && !is_integer(node, "transB", 0, 0);
    if (turned && context_.leaves_out("fold_constants")) return;  // kernels read weights that are constants
    if (gemm && (!is_integer(node, "transA", 0, 0) || !is_one(node, "alpha") || !is_one(node, "beta"))) return;
    const std::optional<Quantised> x = operands_.dequantised(node.inputs[0]);
    std::optional<QuantisedWeights> w = operands_.weights(node.inputs[1], turned ? 0 : 1);
    std::optional<ValueId> b = gemm ? operands_.bias(node, 2) : std::optional(ValueId{});
    if (!x || !w || !b || graph_.constant(w->bytes)->shape().size() != 2) return;
    const ir::ValueType& type = graph_.value(x->bytes).type;
    if (!type.dims || type.dims->size() < 2) return;
    if (turned) w->bytes = builder_.add("Transpose", {w->bytes}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    if (turned) fold(w->bytes);
    NodeId start = graph_.value(node.outputs[0]).producer;
    if (!gemm) take_bias(start, *b, graph_.constant(w->bytes)->shape()[1]);
    const Result found = result(start);
    if (const std::optional<ValueId> y = place("tessera::QuantisedLinear", *x, *w, *b, found, {})) give(found, *y);
  }

  // Takes the sum with a constant vector behind a product as its bias.
  void take_bias(NodeId& start, ValueId& bias, std::int64_t outputs) const {
    const ValueId y = graph_.node(start).outputs[0];
    const std::optional<NodeId> next = operands_.follower(y);
    if (!next || graph_.node(*next).op != "Add") return;
    const ir::Node& add = graph_.node(*next);
    const ValueId other = add.inputs[add.inputs[0] == y ? 1 : 0];
    const Tensor* constant = graph_.constant(other);
    if (constant == nullptr || constant->dtype() != DType::f32 || constant->shape().size() != 1 ||
        constant->elements() != outputs)
      return;
    bias = other;
    start = *next;
  }

  // Folds a node of constants at once, because kernels look at their weights.
  void fold(ValueId value) {
    const ir::Node node = graph_.node(graph_.value(value).producer);
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs) inputs.emplace_back(*graph_.constant(input));
    graph_.become_constant(value, context_.evaluate(node, inputs)[0].tensor());
  }

  void add(const ir::Node& node) {
    const std::optional<Quantised> a = operands_.dequantised(node.inputs[0]), b = operands_.dequantised(node.inputs[1]);
    if (!a || !b || !a->zero.valid() || !b->zero.valid()) return;
    const Result found = result(graph_.value(node.outputs[0]).producer);
    // A Relu is redundant only if rounding to the range of u8 already implies it.
    if (found.quantisation.empty() || graph_.value(found.quantisation[1]).type.dtype != DType::u8) return;
    if (!found.activation.empty() && *operands_.single(found.quantisation[1])->data<std::uint8_t>() != 0) return;
    const ValueId y = builder_.add(
        "com.microsoft::QLinearAdd",
        {a->bytes, a->scale, a->zero, b->bytes, b->scale, b->zero, found.quantisation[0], found.quantisation[1]});
    if (context_.keeps_composite(graph_, graph_.node(graph_.value(y).producer))) give(found, y);
  }

  // Moves or selects elements of 8-bit data with one scale in place of real numbers.
  void move(const ir::Node& node) {
    const std::optional<Quantised> x = operands_.dequantised(node.inputs[0]);
    if (!x || !x->zero.valid() || node.outputs.size() != 1) return;
    const std::optional<NodeId> quantise = operands_.quantising(node.outputs[0]);
    if (!quantise || !operands_.same(graph_.node(*quantise).inputs[1], x->scale) ||
        !operands_.same(graph_.node(*quantise).inputs[2], x->zero))
      return;
    ir::Node moved = node;
    moved.inputs[0] = x->bytes;
    moved.outputs = graph_.node(*quantise).outputs;
    graph_.replace_node(*quantise, std::move(moved));
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
  QuantisedOperands operands_{graph_, uses_};
};

}  // namespace

ir::Graph lower_quantised(ir::Graph graph, const PassContext& context) {
  return Lowering(std::move(graph), context).run();
}

}  // namespace tessera::passes
