// Composites expressed by older operators, with the formulas of their specification.
#include <cmath>
#include <numbers>
#include <numeric>

#include "io/onnx/downgrade/downgrade_rules.h"

namespace tessera::io {
namespace {

// Arithmetic on one operand of the node's element type.
class Formula {
 public:
  explicit Formula(Downgrade& downgrade) : builder_(downgrade.builder), x_(downgrade.node.inputs[0]) {}
  ir::ValueId x() const { return x_; }
  ir::ValueId number(double value) { return builder_.scalar(value, builder_.dtype(x_)); }
  ir::ValueId unary(const char* op, ir::ValueId a, ir::Attributes attributes = {}) {
    return builder_.add(op, {a}, std::move(attributes));
  }
  ir::ValueId add(ir::ValueId a, ir::ValueId b) { return builder_.add("Add", {a, b}); }
  ir::ValueId multiply(ir::ValueId a, ir::ValueId b) { return builder_.add("Mul", {a, b}); }

 private:
  ops::GraphBuilder& builder_;
  ir::ValueId x_;
};

bool is_float_node(const Downgrade& downgrade) {
  return ops::types::floats.contains(downgrade.dtype(0));
}

// The operands of a normalisation over the axes from `axis` on: X in the type stash_type, and those axes.
struct Trailing {
  ir::ValueId x;
  DType stash;
  std::vector<std::int64_t> axes;
};

std::optional<Trailing> trailing(Downgrade& downgrade) {
  const std::optional<std::int64_t> rank = downgrade.rank(0);
  std::int64_t axis = downgrade.integer_or("axis", -1);
  if (axis >= 0 && !rank) return std::nullopt;
  if (rank && axis >= 0) axis -= *rank;
  const auto stash = static_cast<DType>(downgrade.integer_or("stash_type", 1));
  const DType own = downgrade.dtype(0), type = own == DType::f64 ? DType::f64 : stash;
  Trailing result{downgrade.builder.cast(downgrade.node.inputs[0], type), type, {}};
  for (; axis < 0; ++axis) result.axes.push_back(rank ? axis + *rank : axis);
  return result;
}

}  // namespace

// x / 2 (1 + erf(x / sqrt 2)), or with approximate = tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
bool gelu_to_19(Downgrade& downgrade) {
  if (!is_float_node(downgrade)) return false;
  Formula f(downgrade);
  const ir::ValueId x = f.x(), half = f.multiply(x, f.number(0.5));
  if (downgrade.text_or("approximate", "none") == "none") {
    const ir::ValueId erf = f.unary("Erf", f.multiply(x, f.number(1 / std::numbers::sqrt2)));
    return downgrade.become({f.multiply(half, f.add(erf, f.number(1)))});
  }
  const ir::ValueId cube = f.multiply(f.multiply(x, x), x);
  const ir::ValueId inner =
      f.multiply(f.add(x, f.multiply(cube, f.number(0.044715))), f.number(std::sqrt(2 / std::numbers::pi)));
  return downgrade.become({f.multiply(half, f.add(f.unary("Tanh", inner), f.number(1)))});
}

// Channels are viewed as [N, groups, -1] and normalised by InstanceNormalization, which treats each group as a channel;
// scale and bias per channel follow.
bool group_normalization_to_20(Downgrade& downgrade) {
  const std::optional<std::int64_t> rank = downgrade.rank(0);
  const std::int64_t groups = downgrade.integer_or("num_groups", 0);
  if (!rank || *rank < 2 || groups < 1 || groups > (1 << 20) || !is_float_node(downgrade)) return false;
  ops::GraphBuilder& builder = downgrade.builder;
  const ir::ValueId x = downgrade.node.inputs[0];
  const DType own = downgrade.dtype(0), stash = static_cast<DType>(downgrade.integer_or("stash_type", 1));
  const DType type = own == DType::f64 ? own : stash;
  std::vector<float> ones(static_cast<std::size_t>(groups), 1), zeros(static_cast<std::size_t>(groups), 0);
  const auto constant = [&](const std::vector<float>& values) {
    return builder.cast(builder.constant(Tensor::from<float>({groups}, std::span<const float>(values))), type);
  };
  const ir::ValueId grouped = builder.add("Reshape", {builder.cast(x, type), builder.integers({0, groups, -1})});
  const ir::ValueId normalised = builder.add("InstanceNormalization", {grouped, constant(ones), constant(zeros)},
                                             {{"epsilon", downgrade.real_or("epsilon", 1e-5f)}});
  const ir::ValueId back = builder.cast(builder.add("Reshape", {normalised, builder.add("Shape", {x})}), own);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(*rank - 2));
  std::iota(positions.begin(), positions.end(), std::int64_t{1});
  const auto per_channel = [&](std::size_t i) {
    return positions.empty() ? downgrade.node.inputs[i]
                             : builder.add("Unsqueeze", {downgrade.node.inputs[i], builder.integers(positions)});
  };
  return downgrade.become({builder.add("Add", {builder.add("Mul", {back, per_channel(1)}), per_channel(2)})});
}

// x HardSigmoid(x) with slope 1/6 and 1/2 at zero
bool hard_swish_to_13(Downgrade& downgrade) {
  if (!is_float_node(downgrade)) return false;
  Formula f(downgrade);
  return downgrade.become({f.multiply(f.x(), f.unary("HardSigmoid", f.x(), {{"alpha", 1.0f / 6}, {"beta", 0.5f}}))});
}

bool layer_normalization_to_16(Downgrade& downgrade) {
  if (!is_float_node(downgrade)) return false;
  const std::optional<Trailing> over = trailing(downgrade);
  const bool stashes = downgrade.wants_output(1) || downgrade.wants_output(2);
  if (!over || (stashes && static_cast<std::int64_t>(over->stash) != downgrade.integer_or("stash_type", 1)))
    return false;
  ops::GraphBuilder& builder = downgrade.builder;
  const ir::ValueId axes = builder.integers(over->axes);
  const ir::ValueId mean = builder.add("ReduceMean", {over->x, axes});
  const ir::ValueId centred = builder.add("Sub", {over->x, mean});
  const ir::ValueId variance = builder.add("ReduceMean", {builder.add("Mul", {centred, centred}), axes});
  const ir::ValueId epsilon = builder.scalar(downgrade.real_or("epsilon", 1e-5f), over->stash);
  const ir::ValueId deviation = builder.add("Sqrt", {builder.add("Add", {variance, epsilon})});
  ir::ValueId result = builder.cast(builder.add("Div", {centred, deviation}), downgrade.dtype(0));
  result = builder.add("Mul", {result, downgrade.node.inputs[1]});
  if (downgrade.has_input(2)) result = builder.add("Add", {result, downgrade.node.inputs[2]});
  std::vector<ir::ValueId> results{result, mean};
  if (downgrade.wants_output(2)) results.push_back(builder.add("Reciprocal", {deviation}));
  return downgrade.become(std::move(results));
}

// x tanh(log(1 + exp(x)))
bool mish_to_17(Downgrade& downgrade) {
  if (!is_float_node(downgrade)) return false;
  Formula f(downgrade);
  return downgrade.become({f.multiply(f.x(), f.unary("Tanh", f.unary("Softplus", f.x())))});
}

bool rms_normalization_to_22(Downgrade& downgrade) {
  if (!is_float_node(downgrade)) return false;
  const std::optional<Trailing> over = trailing(downgrade);
  const DType own = downgrade.dtype(1);
  if (!over || own == DType::undefined) return false;
  ops::GraphBuilder& builder = downgrade.builder;
  const ir::ValueId square =
      builder.add("ReduceMean", {builder.add("Mul", {over->x, over->x}), builder.integers(over->axes)});
  const ir::ValueId epsilon = builder.scalar(downgrade.real_or("epsilon", 1e-5f), over->stash);
  const ir::ValueId root = builder.add("Sqrt", {builder.add("Add", {square, epsilon})});
  const ir::ValueId normalised = builder.cast(builder.add("Div", {over->x, root}), own);
  return downgrade.become({builder.add("Mul", {normalised, downgrade.node.inputs[1]})});
}

// x Sigmoid(alpha x)
bool swish_to_23(Downgrade& downgrade) {
  if (!is_float_node(downgrade)) return false;
  Formula f(downgrade);
  const float alpha = downgrade.real_or("alpha", 1.0f);
  return downgrade.become(
      {f.multiply(f.x(), f.unary("Sigmoid", alpha == 1 ? f.x() : f.multiply(f.x(), f.number(alpha))))});
}

}  // namespace tessera::io
