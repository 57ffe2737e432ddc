// Operators of transformers as onnxruntime names them that are one standard operator, or two.
// Their schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <algorithm>

#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"
#include "ops/core/op.h"

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
  ir::Attributes range{{"start", axis}};
  if (axis != -1) range.emplace("end", axis + 1);
  return upgrade.add("Shape", {of}, std::move(range));
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

// The shape of `x` with its last dimension replaced by `last` (1-D).
ir::ValueId with_last(Upgrade& upgrade, ir::ValueId x, ir::ValueId last) {
  const ir::ValueId leading = upgrade.add("Shape", {x}, {{"start", std::int64_t{0}}, {"end", std::int64_t{-1}}});
  return upgrade.add("Concat", {leading, last}, {{"axis", std::int64_t{0}}});
}

// x / sqrt(mean(x²) + epsilon) over the last axis, in the element type of x.
ir::ValueId root_mean_square_normalised(Upgrade& upgrade, ir::ValueId x) {
  const float epsilon = upgrade.take_or("epsilon", 1e-5f);
  const ir::ValueId one = upgrade.add("CastLike", {upgrade.add_constant(Tensor::from<float>({1}, {1.0f})), x});
  return upgrade.add("RMSNormalization", {x, one}, {{"epsilon", epsilon}});
}

// The index of the stream of positions (of three) that rotates each column: `sections` columns of each stream in
// sequence, or interleaved while a later stream has columns left, with the first stream in between.
std::vector<int> streams_of_columns(const std::vector<std::int64_t>& sections, bool interleaved) {
  constexpr std::int64_t kMost = 1 << 16;
  const bool sound = sections.size() == 3 && std::all_of(sections.begin(), sections.end(),
                                                         [](std::int64_t size) { return size >= 0 && size <= kMost; });
  require(sound, ErrorKind::invalid_model, "mrope_section is {}, expected three sizes from 0 to {}",
          to_string(Shape(sections.begin(), sections.end())), kMost);
  std::vector<int> streams(static_cast<std::size_t>(sections[0] + sections[1] + sections[2]), 0);
  for (int stream = 1; stream < 3; ++stream) {
    const std::int64_t count = sections[static_cast<std::size_t>(stream)];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column = interleaved ? 3 * i + stream : sections[0] + (stream == 2 ? sections[1] : 0) + i;
      if (column >= static_cast<std::int64_t>(streams.size())) break;
      streams[static_cast<std::size_t>(column)] = stream;
    }
  }
  return streams;
}

// Rows of a cache [positions, columns] for ids [3, batch, length], each column from its stream: [batch, length,
// columns].
ir::ValueId rows_by_stream(Upgrade& upgrade, ir::ValueId cache, ir::ValueId ids, const std::vector<int>& streams) {
  ir::ValueId rows;
  for (int stream = 0; stream < 3; ++stream) {
    const ir::ValueId own_ids = upgrade.add("Gather", {ids, upgrade.integer(stream)});
    const ir::ValueId own = upgrade.add("Gather", {cache, own_ids});
    Tensor mine(DType::boolean, {static_cast<std::int64_t>(streams.size())});
    for (std::size_t i = 0; i < streams.size(); ++i) mine.mutable_data<bool>()[i] = streams[i] == stream;
    rows = stream == 0 ? own : upgrade.add("Where", {upgrade.add_constant(std::move(mine)), own, rows});
  }
  return rows;
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

// Changes the order of inputs; expands a single offset to positions for all rows; derives the size of heads from the
// caches. `scale` and `is_packed_batching` have no effect.
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

// RotaryEmbedding with three streams of positions [3, batch, length], for models of images and text (arXiv:2409.12191).
void microsoft_m_rotary_embedding(Upgrade& upgrade) {
  require_inputs(upgrade, 4);
  upgrade.take<float>("scale");
  upgrade.take<std::int64_t>("is_packed_batching");
  const bool interleaved = upgrade.take_or<std::int64_t>("mrope_layout", 0) != 0;
  const std::vector<int> streams =
      streams_of_columns(upgrade.take_required<std::vector<std::int64_t>>("mrope_section"), interleaved);
  const std::vector<ir::ValueId> in = upgrade.node.inputs;
  const ir::ValueId cosines = rows_by_stream(upgrade, in[2], in[1], streams),
                    sines = rows_by_stream(upgrade, in[3], in[1], streams);
  upgrade.node.op = "RotaryEmbedding";
  upgrade.node.inputs = {in[0], cosines, sines};
}

// x + y gate
void microsoft_gated_add(Upgrade& upgrade) {
  require_inputs(upgrade, 3);
  const ir::ValueId gated = upgrade.add("Mul", {upgrade.node.inputs[1], upgrade.node.inputs[2]});
  upgrade.node.op = "Add";
  upgrade.node.inputs = {upgrade.node.inputs[0], gated};
}

// z sigmoid(z) of z = alpha x; a second input takes the place of alpha.
void microsoft_scaled_silu(Upgrade& upgrade) {
  require_inputs(upgrade, 1);
  const ir::ValueId x = upgrade.node.inputs[0];
  const float alpha = upgrade.take_or("alpha", 1.0f);
  const ir::ValueId factor =
      upgrade.has_input(1) ? upgrade.node.inputs[1] : upgrade.add_constant(Tensor::scalar(alpha));
  upgrade.node.op = "Swish";
  upgrade.node.inputs = {upgrade.add("Mul", {x, upgrade.add("CastLike", {factor, x})})};
}

// Groups as long as the scale are normalised and scaled, then gated by silu(gate) or sigmoid(gate).
void microsoft_gated_rms_norm(Upgrade& upgrade) {
  require_inputs(upgrade, 3);
  const ir::ValueId x = upgrade.node.inputs[0], scale = upgrade.node.inputs[1], gate = upgrade.node.inputs[2];
  const auto activation = upgrade.take_or<std::string>("activation", "silu");
  require(activation == "silu" || activation == "swish" || activation == "sigmoid", ErrorKind::invalid_model,
          "activation is '{}', expected silu, swish or sigmoid", activation);
  const ir::ValueId group =
      upgrade.add("Concat", {upgrade.integers({-1}), upgrade.add("Shape", {scale})}, {{"axis", std::int64_t{0}}});
  const ir::ValueId groups = upgrade.add("Reshape", {x, with_last(upgrade, x, group)});
  const ir::ValueId scaled = upgrade.add("Mul", {root_mean_square_normalised(upgrade, groups), scale});
  const ir::ValueId normal = upgrade.add("Reshape", {scaled, upgrade.add("Shape", {x})});
  upgrade.node.op = "Mul";
  upgrade.node.inputs = {normal, upgrade.add(activation == "sigmoid" ? "Sigmoid" : "Swish", {gate})};
}

// Branches [.., branches, size], or flat [.., branches * size], are normalised; the scale is [size] for all, or has one
// value per element.
void microsoft_branchwise_rms_norm(Upgrade& upgrade) {
  require_inputs(upgrade, 1);
  const ir::ValueId x = upgrade.node.inputs[0];
  const auto branches = upgrade.take_or<std::int64_t>("num_branches", 0);
  ir::ValueId apart = x;
  if (branches != 0) apart = upgrade.add("Reshape", {x, with_last(upgrade, x, upgrade.integers({branches, -1}))});
  ir::ValueId normal = root_mean_square_normalised(upgrade, apart);
  if (upgrade.has_input(1)) {
    const ir::ValueId rows =
        upgrade.add("Concat", {upgrade.integers({-1}), size_along(upgrade, apart, -1)}, {{"axis", std::int64_t{0}}});
    const ir::ValueId scale = upgrade.add("Reshape", {upgrade.node.inputs[1], rows});
    normal = upgrade.add("Mul", {normal, upgrade.add("CastLike", {scale, x})});
  }
  upgrade.node.op = "Reshape";
  upgrade.node.inputs = {normal, upgrade.add("Shape", {x})};
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
