// Operators of transformers as onnxruntime names them that are one standard operator, or two.
// Their schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include "base/error.h"
#include "io/onnx/upgrade_rules.h"
#include "ops/op.h"

namespace tessera::io {
namespace {

void require_inputs(const Upgrade& upgrade, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    require(upgrade.has_input(i), ErrorKind::invalid_model, "input {} is missing", i);
}

// Gelu of the first input plus the second, where that is given.
void gelu_of_sum(Upgrade& upgrade, const std::string& approximate) {
  require_inputs(upgrade, 1);
  const ir::ValueId x = upgrade.node.inputs[0];
  upgrade.node.op = "Gelu";
  upgrade.node.inputs = {upgrade.has_input(1) ? upgrade.add("Add", {x, upgrade.node.inputs[1]}) : x};
  upgrade.node.attributes = {{"approximate", approximate}};
}

// One value along the axis of the shape of `of`, 1-D.
ir::ValueId size_along(Upgrade& upgrade, ir::ValueId of, std::int64_t axis) {
  return upgrade.add("Shape", {of}, {{"start", axis}, {"end", axis + 1}});
}

// [batch, length] positions that follow a single offset.
ir::ValueId following(Upgrade& upgrade, ir::ValueId offset, ir::ValueId batch, ir::ValueId length) {
  const ir::ValueId count = upgrade.add("Squeeze", {length, upgrade.integers({0})});
  const ir::ValueId range = upgrade.add("Range", {upgrade.integer(0), count, upgrade.integer(1)});
  const ir::ValueId positions = upgrade.add("Add", {upgrade.add("Reshape", {offset, upgrade.integers({1})}), range});
  const ir::ValueId shape = upgrade.add("Concat", {batch, length}, {{"axis", std::int64_t{0}}});
  return upgrade.add("Expand", {positions, shape});
}

// Without num_heads a head is as long as what the caches rotate: [batch, length, hidden] -> [batch, heads, length, 2 *
// columns].
void rotate_heads_of_cache_size(Upgrade& upgrade, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
  const ir::ValueId x = inputs[0];
  const ir::ValueId size = upgrade.add("Mul", {size_along(upgrade, inputs[1], 1), upgrade.integers({2})});
  const ir::ValueId shape = upgrade.add("Concat", {upgrade.integers({0, 0, -1}), size}, {{"axis", std::int64_t{0}}});
  const ir::Attributes swap{{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}};
  inputs[0] = upgrade.add("Transpose", {upgrade.add("Reshape", {x, shape})}, swap);
  const ir::ValueId rotated = upgrade.add("RotaryEmbedding", std::move(inputs), std::move(attributes));
  upgrade.node.op = "Reshape";
  upgrade.node.inputs = {upgrade.add("Transpose", {rotated}, swap), upgrade.add("Shape", {x})};
  upgrade.node.attributes.clear();
}

}  // namespace

void microsoft_bias_gelu(Upgrade& upgrade) {
  gelu_of_sum(upgrade, "none");
}

void microsoft_fast_gelu(Upgrade& upgrade) {
  gelu_of_sum(upgrade, "tanh");
}

// x sigmoid(alpha x)
void microsoft_quick_gelu(Upgrade& upgrade) {
  upgrade.node.op = "Swish";
  upgrade.set_default("alpha", 1.702f);
}

// Inputs in another order; one offset for all rows instead of positions; heads that only the caches tell the size of.
// `scale` and `is_packed_batching` change nothing.
void microsoft_rotary_embedding(Upgrade& upgrade) {
  require_inputs(upgrade, 4);
  upgrade.take<float>("scale");
  upgrade.take<std::int64_t>("is_packed_batching");
  const auto heads = upgrade.take_or<std::int64_t>("num_heads", 0);
  const ir::ValueId x = upgrade.node.inputs[0];
  ir::ValueId ids = upgrade.node.inputs[1];
  if (upgrade.known_rank(1) < 2) {
    const std::int64_t length_axis = upgrade.known_rank(0) == 4 ? 2 : 1;
    const ir::ValueId batch = size_along(upgrade, x, 0), length = size_along(upgrade, x, length_axis);
    ids = following(upgrade, ids, batch, length);
  }
  std::vector<ir::ValueId> inputs{x, upgrade.node.inputs[2], upgrade.node.inputs[3], ids};
  if (heads == 0 && upgrade.known_rank(0) == 3) {
    return rotate_heads_of_cache_size(upgrade, std::move(inputs), upgrade.node.attributes);
  }
  upgrade.node.op = "RotaryEmbedding";
  upgrade.node.inputs = std::move(inputs);
  if (heads != 0) upgrade.node.attributes.insert_or_assign("num_heads", heads);
}

// RMSNormalization; the second output is 1 / sqrt(mean(x²) + epsilon) in f32.
void simplified_layer_normalization(Upgrade& upgrade) {
  require_inputs(upgrade, 2);
  upgrade.node.op = "RMSNormalization";
  const std::vector<ir::ValueId> outputs = upgrade.node.outputs;
  upgrade.node.outputs.resize(1);
  if (outputs.size() < 2 || !outputs[1].valid()) return;
  const auto attribute = [&](std::string_view name, auto otherwise) {
    const auto found = upgrade.node.attributes.find(name);
    const auto* given =
        found == upgrade.node.attributes.end() ? nullptr : std::get_if<decltype(otherwise)>(&found->second);
    return given != nullptr ? *given : otherwise;
  };
  std::vector<std::int64_t> axes{-1};
  if (const auto axis = attribute("axis", std::int64_t{-1}); axis != -1) {
    const std::int64_t rank = upgrade.known_rank(0);
    axes.clear();
    for (std::int64_t i = ops::normalise_axis(axis, rank); i < rank; ++i) axes.push_back(i);
  }
  const ir::ValueId x = upgrade.add("Cast", {upgrade.node.inputs[0]}, {{"to", static_cast<std::int64_t>(DType::f32)}});
  const ir::ValueId mean_square = upgrade.add("ReduceMean", {upgrade.add("Mul", {x, x}), upgrade.integers(axes)});
  const ir::ValueId epsilon = upgrade.add_constant(Tensor::scalar(attribute("epsilon", 1e-5f)));
  const ir::ValueId deviation = upgrade.add("Sqrt", {upgrade.add("Add", {mean_square, epsilon})});
  upgrade.after.push_back({"Reciprocal", "", {deviation}, {outputs[1]}, {}, 0});
}

}  // namespace tessera::io
