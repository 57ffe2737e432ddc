// Operators of domain com.microsoft that are a standard operator under another name, in its older packaging or with its
// channels last. Their schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <numeric>

#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {
namespace {

using Integers = std::vector<std::int64_t>;

// Inputs of 32-bit integers where the standard operator takes 64 bits.
void widen_input(Upgrade& upgrade, std::size_t i) {
  if (!upgrade.has_input(i) || upgrade.type(i).dtype == DType::i64) return;
  upgrade.set_input(i, upgrade.add("Cast", {upgrade.node.inputs[i]}, {{"to", static_cast<std::int64_t>(DType::i64)}}));
}

void reshape_input(Upgrade& upgrade, std::size_t i, const Integers& shape) {
  if (!upgrade.has_input(i) || upgrade.rank(i) == static_cast<std::int64_t>(shape.size())) return;
  upgrade.set_input(i, upgrade.add("Reshape", {upgrade.node.inputs[i], upgrade.integers(shape)}));
}

// [N, spatial..., C]: the rank of an operator on images, from the data, the weights or the window.
std::int64_t image_rank(const Upgrade& upgrade, std::initializer_list<std::size_t> images) {
  for (const std::size_t i : images) {
    if (upgrade.has_input(i) && upgrade.rank(i)) return std::max<std::int64_t>(*upgrade.rank(i), 2);
  }
  const auto kernel = upgrade.node.attributes.find("kernel_shape");
  const auto* sizes = kernel == upgrade.node.attributes.end() ? nullptr : std::get_if<Integers>(&kernel->second);
  require(sizes != nullptr, ErrorKind::unsupported, "channels last needs an input of known rank");
  return static_cast<std::int64_t>(sizes->size()) + 2;
}

// Transposes for a node that has channels second, where the images at these inputs, and the result, have them last.
void move_channels(Upgrade& upgrade, std::int64_t rank, std::initializer_list<std::size_t> images) {
  Integers to_second(static_cast<std::size_t>(rank)), to_last(to_second);
  std::iota(to_second.begin(), to_second.end(), -1);
  std::iota(to_last.begin(), to_last.end(), 1);
  to_second[0] = to_last[0] = 0;
  to_second[1] = rank - 1;
  to_last.back() = 1;
  for (const std::size_t i : images) {
    if (upgrade.has_input(i))
      upgrade.set_input(i, upgrade.add("Transpose", {upgrade.node.inputs[i]}, {{"perm", to_second}}));
  }
  upgrade.convert_output(0, "Transpose", {{"perm", to_last}});
}

}  // namespace

// DequantizeLinear, QuantizeLinear, Trilu: the same as in the default domain.
void microsoft_same(Upgrade& upgrade) {
  upgrade.node.op.erase(0, upgrade.node.op.find("::") + 2);
}

// The step is optional and defaults to 1.
void microsoft_range(Upgrade& upgrade) {
  microsoft_same(upgrade);
  if (!upgrade.has_input(2)) upgrade.set_input(2, upgrade.real_like_input(1));
}

// Unsqueeze by one axis, a 32-bit scalar.
void microsoft_expand_dims(Upgrade& upgrade) {
  upgrade.node.op = "Unsqueeze";
  const Tensor* axis = upgrade.constant(1);
  if (axis != nullptr && axis->dtype() == DType::i32 && axis->elements() == 1)
    return upgrade.set_input(1, upgrade.integers({axis->data<std::int32_t>()[0]}));
  widen_input(upgrade, 1);
  reshape_input(upgrade, 1, {1});
}

void microsoft_gather_nd(Upgrade& upgrade) {
  microsoft_same(upgrade);
  widen_input(upgrade, 1);
}

// GridSample before the modes were renamed.
void microsoft_grid_sample(Upgrade& upgrade) {
  microsoft_same(upgrade);
  grid_sample_20(upgrade);
}

// Pads may lie in [1, n], the value in [1].
void microsoft_pad(Upgrade& upgrade) {
  microsoft_same(upgrade);
  reshape_input(upgrade, 1, {-1});
  reshape_input(upgrade, 2, {});
}

// Returns values in order of their first occurrence, without the output of positions.
void microsoft_unique(Upgrade& upgrade) {
  microsoft_same(upgrade);
  upgrade.set_default("sorted", std::int64_t{0});
  upgrade.node.outputs.insert(upgrade.node.outputs.begin() + 1, ir::ValueId{});
}

// FusedMatMul under its former name.
void microsoft_transpose_matmul(Upgrade& upgrade) {
  upgrade.node.op = "com.microsoft::FusedMatMul";
}

// Distances of all rows of A and B: |a|² − 2 a·b + |b|², or its root.
void microsoft_cdist(Upgrade& upgrade) {
  const std::string metric = upgrade.take_or<std::string>("metric", "sqeuclidean");
  require(metric == "sqeuclidean" || metric == "euclidean", ErrorKind::unsupported,
          "metric '{}'; supported are euclidean and sqeuclidean", metric);
  require(upgrade.has_input(0) && upgrade.has_input(1), ErrorKind::invalid_model, "inputs 'A' and 'B' are required");
  const ir::ValueId a = upgrade.node.inputs[0], b = upgrade.node.inputs[1];
  const ir::ValueId a_squares = upgrade.add("ReduceSumSquare", {a, upgrade.integers({1})});
  const ir::ValueId b_squares =
      upgrade.add("ReduceSumSquare", {b, upgrade.integers({1})}, {{"keepdims", std::int64_t{0}}});
  const ir::ValueId rest = upgrade.add("Gemm", {a, b, b_squares}, {{"alpha", -2.0f}, {"transB", std::int64_t{1}}});
  upgrade.node.op = "Relu";  // rounding may take a distance of 0 below it
  upgrade.node.inputs = {upgrade.add("Add", {rest, a_squares})};
  if (metric == "euclidean") upgrade.convert_output(0, "Sqrt", {});
}

// QLinearAveragePool, QLinearGlobalAveragePool: with attribute channels_last.
void microsoft_channels_last(Upgrade& upgrade) {
  if (upgrade.take_or<std::int64_t>("channels_last", 0) != 0) move_channels(upgrade, image_rank(upgrade, {0}), {0});
}

void microsoft_q_linear_conv(Upgrade& upgrade) {
  microsoft_same(upgrade);
  if (upgrade.take_or<std::int64_t>("channels_last", 0) != 0) move_channels(upgrade, image_rank(upgrade, {0, 3}), {0});
}

void microsoft_nhwc_max_pool(Upgrade& upgrade) {
  upgrade.node.op = "MaxPool";
  move_channels(upgrade, image_rank(upgrade, {0}), {0});
}

void microsoft_nhwc_conv(Upgrade& upgrade) {
  upgrade.node.op = "Conv";
  move_channels(upgrade, image_rank(upgrade, {0, 1}), {0});
}

void microsoft_nhwc_fused_conv(Upgrade& upgrade) {
  upgrade.node.op = "com.microsoft::FusedConv";
  move_channels(upgrade, image_rank(upgrade, {0, 1}), {0, 3});
}

}  // namespace tessera::io
