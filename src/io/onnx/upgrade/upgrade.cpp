#include "io/onnx/upgrade/upgrade.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "base/error.h"
#include "base/numbers/half.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {
namespace {

// A rule of this version applies to all.
constexpr std::int64_t kEveryVersion = std::numeric_limits<std::int64_t>::max();

// Every change of form, by operator and then by version. An operator or version that is not listed has the same form
// (or a subset of it) in the newest version.
constexpr UpgradeRule kUpgradeRules[] = {
    {"Add", 7, binary_7},
    {"And", 7, binary_7},
    {"BatchNormalization", 7, batch_normalization_7},
    {"BatchNormalization", 9, batch_normalization_9},
    {"BatchNormalization", 14, batch_normalization_14},
    {"Cast", 6, cast_6},
    {"Clip", 11, clip_11},
    {"Concat", 4, concat_4},
    {"DFT", 20, dft_20},
    {"Div", 7, binary_7},
    {"Dropout", 7, dropout_7},
    {"Dropout", 10, dropout_10},
    {"Dropout", 12, dropout_12},
    {"Equal", 7, binary_7},
    {"Gemm", 7, gemm_7},
    {"GlobalLpPool", 2, lp_pool_2},
    {"Greater", 7, binary_7},
    {"GridSample", 20, grid_sample_20},
    {"GroupNormalization", 21, group_normalization_21},
    {"GRU", 7, recurrent_7},
    {"Hardmax", 13, softmax_13},
    {"Less", 7, binary_7},
    {"LogSoftmax", 13, softmax_13},
    {"LpPool", 2, lp_pool_2},
    {"LSTM", 7, recurrent_7},
    {"Mul", 7, binary_7},
    {"Or", 7, binary_7},
    {"Pad", 2, pad_2},
    {"Pad", 11, pad_11},
    {"Pow", 7, binary_7},
    {"PRelu", 7, p_relu_7},
    {"ReduceL1", 18, axes_to_input},
    {"ReduceL2", 18, axes_to_input},
    {"ReduceLogSum", 18, axes_to_input},
    {"ReduceLogSumExp", 18, axes_to_input},
    {"ReduceMax", 18, axes_to_input},
    {"ReduceMean", 18, axes_to_input},
    {"ReduceMin", 18, axes_to_input},
    {"ReduceProd", 18, axes_to_input},
    {"ReduceSum", 13, axes_to_input},
    {"ReduceSumSquare", 18, axes_to_input},
    {"Reshape", 5, reshape_5},
    {"Resize", 11, resize_11},
    {"Resize", 13, resize_13},
    {"Resize", kEveryVersion, resize_absent_inputs},
    {"RNN", 7, recurrent_7},
    {"RoiAlign", 16, roi_align_16},
    {"Scan", 9, scan_9},
    {"Scatter", 11, scatter_11},
    {"Selu", 6, selu_6},
    {"SimplifiedLayerNormalization", kEveryVersion, simplified_layer_normalization},
    {"Slice", 10, slice_10},
    {"Softmax", 13, softmax_13},
    {"Split", 13, split_13},
    {"Split", 18, split_18},
    {"Squeeze", 13, axes_to_input},
    {"Sub", 7, binary_7},
    {"Tile", 6, tile_6},
    {"TopK", 10, top_k_10},
    {"Unsqueeze", 13, axes_to_input},
    {"Upsample", 7, upsample_7},
    {"Upsample", 9, upsample_9},
    {"Upsample", 10, upsample_10},
    {"Xor", 7, binary_7},
    {"ai.onnx.ml::LabelEncoder", 2, label_encoder_2},
    {"com.microsoft::BiasGelu", kEveryVersion, microsoft_bias_gelu},
    {"com.microsoft::BranchwiseRMSNorm", kEveryVersion, microsoft_branchwise_rms_norm},
    {"com.microsoft::CDist", kEveryVersion, microsoft_cdist},
    {"com.microsoft::DequantizeLinear", kEveryVersion, microsoft_same},
    {"com.microsoft::ExpandDims", kEveryVersion, microsoft_expand_dims},
    {"com.microsoft::FastGelu", kEveryVersion, microsoft_fast_gelu},
    {"com.microsoft::GatedAdd", kEveryVersion, microsoft_gated_add},
    {"com.microsoft::GatedRMSNorm", kEveryVersion, microsoft_gated_rms_norm},
    {"com.microsoft::GatherND", kEveryVersion, microsoft_gather_nd},
    {"com.microsoft::Gelu", kEveryVersion, microsoft_same},
    {"com.microsoft::GridSample", kEveryVersion, microsoft_grid_sample},
    {"com.microsoft::MRotaryEmbedding", kEveryVersion, microsoft_m_rotary_embedding},
    {"com.microsoft::NhwcConv", kEveryVersion, microsoft_nhwc_conv},
    {"com.microsoft::NhwcFusedConv", kEveryVersion, microsoft_nhwc_fused_conv},
    {"com.microsoft::NhwcMaxPool", kEveryVersion, microsoft_nhwc_max_pool},
    {"com.microsoft::Pad", kEveryVersion, microsoft_pad},
    {"com.microsoft::QLinearAveragePool", kEveryVersion, microsoft_channels_last},
    {"com.microsoft::QLinearConv", kEveryVersion, microsoft_q_linear_conv},
    {"com.microsoft::QLinearGlobalAveragePool", kEveryVersion, microsoft_channels_last},
    {"com.microsoft::QuantizeLinear", kEveryVersion, microsoft_same},
    {"com.microsoft::QuickGelu", kEveryVersion, microsoft_quick_gelu},
    {"com.microsoft::Range", kEveryVersion, microsoft_range},
    {"com.microsoft::RotaryEmbedding", kEveryVersion, microsoft_rotary_embedding},
    {"com.microsoft::ScaledSiLU", kEveryVersion, microsoft_scaled_silu},
    {"com.microsoft::TransposeMatMul", kEveryVersion, microsoft_transpose_matmul},
    {"com.microsoft::Trilu", kEveryVersion, microsoft_same},
    {"com.microsoft::Unique", kEveryVersion, microsoft_unique},
};

}  // namespace

std::int64_t newest_version(std::string_view domain) {
  if (domain.empty()) return 27;
  if (domain == "ai.onnx.ml") return 5;
  if (domain == "ai.onnx.preview" || domain == "ai.onnx.preview.training" || domain == "com.microsoft") return 1;
  return 0;
}

std::optional<std::int64_t> Upgrade::rank(std::size_t i) const {
  return graph_.rank(node.inputs[i]);
}

std::int64_t Upgrade::known_rank(std::size_t i) const {
  require(has_input(i), ErrorKind::invalid_model, "input {} is missing", i);
  const std::optional<std::int64_t> found = rank(i);
  require(found.has_value(), ErrorKind::unsupported, "this version of the operator needs an input of known rank");
  return *found;
}

DType Upgrade::known_dtype(std::size_t i) const {
  require(has_input(i), ErrorKind::invalid_model, "input {} is missing", i);
  require(type(i).is_tensor() && type(i).dtype != DType::undefined, ErrorKind::unsupported,
          "this version of the operator needs an input of known element type");
  return type(i).dtype;
}

const Tensor* Upgrade::constant(std::size_t i) const {
  if (!has_input(i)) return nullptr;
  graph_.note_read(node.inputs[i]);
  return graph_.graph.constant(node.inputs[i]);
}

std::string Upgrade::hint(std::string_view suffix) const {
  for (ir::ValueId output : node.outputs) {
    if (output.valid()) return graph_.graph.value(output).name.substr(0, 200) + "/" + std::string(suffix);
  }
  return std::string(suffix);
}

ir::ValueId Upgrade::add(std::string op, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
  const std::string name = hint(op);
  return graph_.add_op(std::move(op), std::move(inputs), std::move(attributes), name);
}

ir::ValueId Upgrade::add_constant(Tensor tensor) {
  return graph_.add_constant(std::move(tensor), hint("constant"));
}

ir::ValueId Upgrade::integers(const std::vector<std::int64_t>& values) {
  return add_constant(Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span(values)));
}

ir::ValueId Upgrade::integer(std::int64_t value) {
  return add_constant(Tensor::scalar(value));
}

ir::ValueId Upgrade::real_like_input(float value) {
  switch (type(0).dtype) {
    case DType::f16:
      return add_constant(Tensor::scalar(base::to_f16(value)));
    case DType::bf16:
      return add_constant(Tensor::scalar(base::to_bf16(value)));
    case DType::f64:
      return add_constant(Tensor::scalar(static_cast<double>(value)));
    case DType::f32:
      return add_constant(Tensor::scalar(value));
    default:
      return add("CastLike", {add_constant(Tensor::scalar(value)), node.inputs[0]});
  }
}

void Upgrade::set_input(std::size_t i, ir::ValueId value) {
  require(node.captures == 0, ErrorKind::invalid_model, "{} has a subgraph, which it does not take", node.op);
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = value;
}

void Upgrade::convert_output(std::size_t i, std::string op, ir::Attributes attributes) {
  const ir::ValueId result = node.outputs[i];
  const ir::ValueId fresh = graph_.add_value(graph_.unique_name(hint(op)));
  node.outputs[i] = fresh;
  after.push_back({std::move(op), "", {fresh}, {result}, std::move(attributes), 0});
}

template <typename T>
std::optional<T> Upgrade::take(std::string_view name) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return std::nullopt;
  const T* value = std::get_if<T>(&found->second);
  require(value != nullptr, ErrorKind::invalid_model, "attribute '{}' is of kind {}", name,
          ir::to_string(ir::kind_of(found->second)));
  T result = *value;
  node.attributes.erase(found);
  return result;
}

template <typename T>
T Upgrade::take_required(std::string_view name) {
  std::optional<T> value = take<T>(name);
  require(value.has_value(), ErrorKind::invalid_model, "attribute '{}' is missing", name);
  return *std::move(value);
}

template std::optional<std::int64_t> Upgrade::take(std::string_view);
template std::optional<float> Upgrade::take(std::string_view);
template std::optional<std::string> Upgrade::take(std::string_view);
template std::optional<std::vector<std::int64_t>> Upgrade::take(std::string_view);
template std::optional<std::vector<float>> Upgrade::take(std::string_view);
template std::optional<std::vector<std::string>> Upgrade::take(std::string_view);
template std::int64_t Upgrade::take_required(std::string_view);
template float Upgrade::take_required(std::string_view);
template std::string Upgrade::take_required(std::string_view);
template std::vector<std::int64_t> Upgrade::take_required(std::string_view);
template std::vector<float> Upgrade::take_required(std::string_view);

std::vector<std::int64_t> changes_of(std::string_view op) {
  std::vector<std::int64_t> changes;
  for (const UpgradeRule& rule : kUpgradeRules) {
    if (rule.op == op && rule.changed_at != kEveryVersion) changes.push_back(rule.changed_at);
  }
  return changes;
}

bool is_rewritten(std::string_view op) {
  return std::any_of(std::begin(kUpgradeRules), std::end(kUpgradeRules),
                     [&](const UpgradeRule& rule) { return rule.op == op; });
}

void upgrade_node(Upgrade& upgrade, std::string_view domain) {
  // Before version 6 operators named the inputs that they may overwrite.
  if (domain.empty() && upgrade.version < 6) upgrade.node.attributes.erase("consumed_inputs");
  const std::string op = upgrade.node.op;  // a rule may replace it by operators of the newest version
  for (const UpgradeRule& rule : kUpgradeRules) {
    if (rule.op == op && upgrade.version < rule.changed_at) rule.apply(upgrade);
  }
}

}  // namespace tessera::io
