#include "io/onnx/downgrade/downgrade.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/numbers/half.h"
#include "io/onnx/downgrade/downgrade_rules.h"
#include "io/onnx/downgrade/form_version.h"
#include "io/onnx/downgrade/operator_history.h"
#include "io/onnx/upgrade/upgrade.h"
#include "ops/op_table.h"

namespace tessera::io {
namespace {

// A rule of this version applies wherever possible: other programs do not accept the newest form, although the
// specification allows it.
constexpr std::int64_t kAnyVersion = std::numeric_limits<std::int64_t>::max();

bool no_change(Downgrade&) {
  return true;
}

// Sorted by operator, then by version. Changes listed in upgrade.cpp but not here cannot be reversed.
constexpr DowngradeRule kDowngradeRules[] = {
    {"BatchNormalization", 14, batch_normalization_to_13},
    {"CastLike", 15, cast_like_to_14},
    {"Clip", 11, clip_to_10},
    {"DFT", 20, dft_to_19},
    {"DequantizeLinear", 23, dequantize_linear_to_22},
    {"Dropout", 12, dropout_to_11},
    {"Dropout", 10, no_change},  // the type of the mask, which is gone
    {"Gelu", 20, gelu_to_19, true},
    {"Gemm", 11, gemm_to_10},
    {"GreaterOrEqual", 12, or_equal_to_11},
    {"GridSample", 20, grid_sample_to_19},
    {"GroupNormalization", 21, group_normalization_to_20, true},
    {"HardSwish", 14, hard_swish_to_13, true},
    {"Hardmax", 13, softmax_to_12},
    {"LayerNormalization", 17, layer_normalization_to_16, true},
    {"LessOrEqual", 12, or_equal_to_11},
    {"LogSoftmax", 13, softmax_to_12},
    {"Mish", 18, mish_to_17, true},
    {"Pad", 18, pad_to_17},
    {"Pad", 11, pad_to_10},
    {"Pow", 12, pow_to_11},
    {"QuantizeLinear", kAnyVersion, quantize_linear_to_20},  // onnxruntime 1.31 takes output_dtype only where it is u8
    {"QuantizeLinear", 21, quantize_linear_to_20},
    {"RMSNormalization", 23, rms_normalization_to_22, true},
    {"ReduceL1", 18, axes_to_attribute},
    {"ReduceL2", 18, axes_to_attribute},
    {"ReduceLogSum", 18, axes_to_attribute},
    {"ReduceLogSumExp", 18, axes_to_attribute},
    {"ReduceMax", 18, axes_to_attribute},
    {"ReduceMean", 18, axes_to_attribute},
    {"ReduceMin", 18, axes_to_attribute},
    {"ReduceProd", 18, axes_to_attribute},
    {"ReduceSum", 13, axes_to_attribute},
    {"ReduceSumSquare", 18, axes_to_attribute},
    {"Resize", 18, resize_to_17},
    {"Resize", 13, resize_to_12},
    {"Resize", 11, resize_to_10},
    {"Resize", 10, resize_to_9},
    {"RoiAlign", 16, roi_align_to_15},
    {"ScatterElements", 11, scatter_elements_to_10},
    {"Shape", 15, shape_to_14},
    {"Slice", 10, slice_to_9},
    {"Softmax", 13, softmax_to_12},
    {"Split", 18, split_to_17},
    {"Split", 13, split_to_12},
    {"Squeeze", 13, axes_to_attribute},
    {"Swish", 24, swish_to_23, true},
    {"TopK", 11, top_k_to_10},
    {"TopK", 10, top_k_to_9},
    {"Unsqueeze", 13, axes_to_attribute},
};

// Operators whose attribute `axis` counted from the front before version 11.
constexpr std::array<std::string_view, 14> kFromTheFront = {
    "ArgMax",     "ArgMin", "Compress", "Concat",  "Flatten", "Gather", "Hardmax",
    "LogSoftmax", "OneHot", "Scatter",  "Softmax", "Split",   "TopK",   "QuantizeLinear"};

const DowngradeRule* find_rule(std::string_view op, std::int64_t changed_at) {
  const auto found = std::ranges::find_if(
      kDowngradeRules, [&](const DowngradeRule& rule) { return rule.op == op && rule.changed_at == changed_at; });
  return found != std::end(kDowngradeRules) ? &*found : nullptr;
}

// Versions after `version` at which the form of the operator changed, the newest first.
std::vector<std::int64_t> changes_after(std::string_view op, std::int64_t version) {
  std::vector<std::int64_t> changes = changes_of(op);
  for (const DowngradeRule& rule : kDowngradeRules) {
    if (rule.op == op) changes.push_back(rule.changed_at);
  }
  std::erase_if(changes, [version](std::int64_t change) { return change <= version; });
  std::ranges::sort(changes, std::greater<>());
  changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
  return changes;
}

bool equal(const ir::Attribute& a, const ir::Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* integer = std::get_if<std::int64_t>(&a)) return *integer == std::get<std::int64_t>(b);
  if (const auto* real = std::get_if<float>(&a)) return *real == std::get<float>(b);
  if (const auto* text = std::get_if<std::string>(&a)) return *text == std::get<std::string>(b);
  return false;
}

// Removes attributes that came after the version but state what older versions do anyway: the default, and dilations of
// 1.
void drop_neutral_attributes(ir::Node& node, std::string_view op, std::int64_t version) {
  const ops::OpDef* known = ops::find_op(op);
  for (const HistoryEntry& entry : history_of(op)) {
    const auto found = entry.attribute.empty() || entry.version <= version ? node.attributes.end()
                                                                           : node.attributes.find(entry.attribute);
    if (found == node.attributes.end() || known == nullptr) continue;
    const auto* numbers = std::get_if<std::vector<std::int64_t>>(&found->second);
    bool neutral = entry.attribute == "dilations" && numbers != nullptr &&
                   std::ranges::all_of(*numbers, [](std::int64_t each) { return each == 1; });
    for (const ops::AttributeSpec& spec : known->attributes) {
      neutral =
          neutral || (spec.name == entry.attribute && spec.default_value && equal(*spec.default_value, found->second));
    }
    if (neutral) node.attributes.erase(found);
  }
}

// Makes attribute `axis` count from the front. False if it counts from the back and the rank is not known.
bool count_axis_from_the_front(Downgrade& downgrade) {
  const std::optional<std::int64_t> axis = downgrade.find<std::int64_t>("axis");
  const bool affected = axis && *axis < 0 && std::ranges::find(kFromTheFront, downgrade.node.op) != kFromTheFront.end();
  if (!affected) return true;
  const std::optional<std::int64_t> rank = downgrade.rank(0);
  if (!rank) return false;
  downgrade.node.attributes["axis"] = *axis + *rank + (downgrade.node.op == "OneHot" ? 1 : 0);
  return true;
}

class GraphDowngrade {
 public:
  GraphDowngrade(ir::Graph& graph, std::int64_t version, bool decompose)
      : graph_(graph), version_(version), decompose_(decompose) {}

  std::vector<FormNeed> run() {
    // Nodes that rules add are appended, and are rewritten in their turn.
    for (std::size_t i = 0; i < graph_.order().size(); ++i) rewrite(graph_.order()[i]);
    if (changed_) {
      graph_.sort_topologically();
      graph_.remove_dead_and_compact();
    }
    return std::move(needs_);
  }

 private:
  void rewrite(ir::NodeId id) {
    const std::string op = graph_.node(id).op;
    rewrite_subgraphs(id);
    if (op.find("::") != std::string::npos) return;
    for (const std::int64_t change : changes_after(op, version_)) {
      const DowngradeRule* rule = find_rule(op, change);
      const bool applies = rule != nullptr && (decompose_ || !rule->decomposes);
      const bool done = applies && apply(*rule, id);
      if (!done && change != kAnyVersion) return need(op, change);
      if (graph_.node(id).op == "Identity" && op != "Identity") return;
    }
    ir::Node node = graph_.node(id);
    drop_neutral_attributes(node, op, version_);
    Downgrade whole(graph_, std::move(node), version_);
    if (version_ < 11 && !count_axis_from_the_front(whole)) return need(op, 11);
    put(id, std::move(whole.node));
    if (const std::int64_t needed = form_version(graph_, graph_.node(id)); needed > version_) need(op, needed);
  }

  bool apply(const DowngradeRule& rule, ir::NodeId id) {
    Downgrade downgrade(graph_, graph_.node(id), version_);
    downgrade.builder.set_name_prefix(downgrade.node.name.empty() ? "" : downgrade.node.name + "/");
    try {
      if (!rule.apply(downgrade)) return false;
    } catch (const Error&) {
      return false;  // what the rule would add cannot take these operands
    }
    changed_ = true;
    if (downgrade.results().empty()) put(id, std::move(downgrade.node));
    else carry(id, downgrade.results());
    return true;
  }

  void put(ir::NodeId id, ir::Node node) {
    while (node.captures == 0 && !node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
    graph_.replace_node(id, std::move(node));
  }

  // Outputs keep their names: an Identity carries each result into its output. The first takes the node's place.
  void carry(ir::NodeId id, const std::vector<ir::ValueId>& results) {
    const std::vector<ir::ValueId> outputs = graph_.node(id).outputs;
    bool placed = false;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].valid()) continue;
      ir::Node carrier{"Identity", "", {results.at(i)}, {outputs[i]}, {}, 0};
      if (placed) graph_.add_node(std::move(carrier));
      else graph_.replace_node(id, std::move(carrier));
      placed = true;
    }
  }

  void rewrite_subgraphs(ir::NodeId id) {
    for (const auto& [name, subgraph] : ir::subgraphs_of(graph_.node(id))) {
      ir::Graph copy = *subgraph;
      for (FormNeed& each : downgrade_graph(copy, version_, decompose_)) needs_.push_back(std::move(each));
      graph_.node(id).attributes[name] = std::make_shared<const ir::Graph>(std::move(copy));
    }
  }

  void need(const std::string& op, std::int64_t version) { needs_.push_back({op, version}); }

  ir::Graph& graph_;
  const std::int64_t version_;
  const bool decompose_;
  bool changed_ = false;
  std::vector<FormNeed> needs_;
};

}  // namespace

DType Downgrade::dtype(std::size_t i) const {
  if (!has_input(i)) return DType::undefined;
  const ir::ValueType& type = graph_.value(node.inputs[i]).type;
  return type.is_tensor() ? type.dtype : DType::undefined;
}

std::optional<std::int64_t> Downgrade::rank(std::size_t i) const {
  if (!has_input(i)) return std::nullopt;
  const ir::ValueType& type = graph_.value(node.inputs[i]).type;
  if (!type.is_tensor() || !type.dims) return std::nullopt;
  return static_cast<std::int64_t>(type.dims->size());
}

std::optional<std::vector<std::int64_t>> Downgrade::integers(std::size_t i) const {
  const Tensor* value = constant(i);
  if (value == nullptr || !value->has_data()) return std::nullopt;
  if (value->dtype() == DType::i64)
    return std::vector<std::int64_t>(value->data<std::int64_t>(), value->data<std::int64_t>() + value->elements());
  if (value->dtype() == DType::i32)
    return std::vector<std::int64_t>(value->data<std::int32_t>(), value->data<std::int32_t>() + value->elements());
  return std::nullopt;
}

std::optional<float> Downgrade::real(std::size_t i) const {
  const Tensor* value = constant(i);
  if (value == nullptr || !value->has_data() || value->elements() != 1) return std::nullopt;
  switch (value->dtype()) {
    case DType::f32:
      return value->data<float>()[0];
    case DType::f16:
      return base::to_float(value->data<f16_t>()[0]);
    case DType::f64: {
      const double wide = value->data<double>()[0];
      const auto narrow = static_cast<float>(wide);
      return static_cast<double>(narrow) == wide ? std::optional(narrow) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

void Downgrade::drop_input(std::size_t i) {
  require(node.captures == 0, ErrorKind::invalid_model, "{} has a subgraph, which it does not take", node.op);
  node.inputs[i] = {};
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
}

void Downgrade::set_input(std::size_t i, ir::ValueId value) {
  require(node.captures == 0, ErrorKind::invalid_model, "{} has a subgraph, which it does not take", node.op);
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = value;
}

void Downgrade::erase(std::string_view name) {
  if (const auto found = node.attributes.find(name); found != node.attributes.end()) node.attributes.erase(found);
}

bool Downgrade::become(std::vector<ir::ValueId> results) {
  results_ = std::move(results);
  return true;
}

std::vector<FormNeed> downgrade_graph(ir::Graph& graph, std::int64_t version, bool decompose) {
  return GraphDowngrade(graph, version, decompose).run();
}

}  // namespace tessera::io
