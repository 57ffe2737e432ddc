#include "io/onnx/downgrade/form_version.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "io/onnx/downgrade/operator_history.h"
#include "io/onnx/upgrade/upgrade.h"
#include "ops/op_table.h"

namespace tessera::io {
namespace {

using Kind = ir::ValueType::Kind;

struct TextIntroduction {
  std::string_view op, attribute, value;
  std::int64_t version;
};
// Values that were added to an attribute later; schemas do not list them.
constexpr TextIntroduction kTexts[] = {
    {"DepthToSpace", "mode", "CRD", 11},
    {"GridSample", "mode", "cubic", 20},
    {"GridSample", "mode", "linear", 20},
    {"Pad", "mode", "wrap", 19},
    {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19},
    {"ScatterElements", "reduction", "max", 18},
    {"ScatterElements", "reduction", "min", 18},
    {"ScatterND", "reduction", "max", 18},
    {"ScatterND", "reduction", "min", 18},
};

struct EqualTypes {
  std::string_view op;
  std::size_t first, second;  // inputs
  std::int64_t version;
};
// Inputs that had to have the same element type before a version.
constexpr EqualTypes kEqualTypes[] = {
    {"BatchNormalization", 0, 1, 15},
    {"BatchNormalization", 0, 3, 14},
    {"Pow", 0, 1, 12},
    {"QuantizeLinear", 0, 1, 23},
};

// Kind and element type of a value; for sequences and optionals, the element type of the tensors in them.
struct Flow {
  Kind kind = Kind::tensor;
  DType dtype = DType::undefined;
};

Flow flow_of(const ir::Graph& graph, ir::ValueId id) {
  if (!id.valid()) return {};
  const ir::ValueType* type = &graph.value(id).type;
  const Kind kind = type->kind;
  while ((type->kind == Kind::sequence || type->kind == Kind::optional) && type->element) type = type->element.get();
  return {kind, kind == Kind::map ? DType::undefined : type->dtype};
}

class NodeForm {
 public:
  NodeForm(const ir::Graph& graph, const ir::Node& node) : graph_(graph), node_(node), op_(ops::find_op(node.op)) {}

  bool uses(const HistoryEntry& entry) const {
    if (entry.whole) return true;
    if (!entry.attribute.empty()) return node_.attributes.contains(entry.attribute);
    if (entry.input >= 0) return has_input(static_cast<std::size_t>(entry.input));
    if (entry.absent_input >= 0) return !has_input(static_cast<std::size_t>(entry.absent_input));
    if (entry.output >= 0) return has_output(static_cast<std::size_t>(entry.output));
    return any(entry, node_.formal_inputs(), node_.inputs, entry.inputs) ||
           any(entry, node_.outputs.size(), node_.outputs, entry.outputs);
  }

  std::int64_t version_for_values() const {
    std::int64_t version = 1;
    for (const TextIntroduction& each : kTexts) {
      if (each.op != node_.op) continue;
      const auto found = node_.attributes.find(each.attribute);
      const auto* text = found != node_.attributes.end() ? std::get_if<std::string>(&found->second) : nullptr;
      if (text != nullptr && *text == each.value) version = std::max(version, each.version);
    }
    for (const EqualTypes& each : kEqualTypes) {
      if (each.op != node_.op || !has_input(each.first) || !has_input(each.second)) continue;
      if (flow_of(graph_, node_.inputs[each.first]).dtype != flow_of(graph_, node_.inputs[each.second]).dtype)
        version = std::max(version, each.version);
    }
    return std::max(version, version_for_scale());
  }

 private:
  bool has_input(std::size_t i) const { return i < node_.formal_inputs() && node_.inputs[i].valid(); }
  bool has_output(std::size_t i) const { return i < node_.outputs.size() && node_.outputs[i].valid(); }

  bool any(const HistoryEntry& entry, std::size_t count, const std::vector<ir::ValueId>& ids,
           std::uint32_t mask) const {
    if (mask == 0) return false;
    const std::size_t last = static_cast<std::size_t>(std::bit_width(mask)) - 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (!ids[i].valid()) continue;
      // All values of a variadic parameter have the position of that parameter, which is the last one.
      const bool variadic = op_ != nullptr && is_variadic(&ids == &node_.inputs ? op_->inputs : op_->outputs, last);
      if ((mask >> std::min(i, variadic ? last : std::size_t{31}) & 1) == 0) continue;
      const Flow flow = flow_of(graph_, ids[i]);
      if (flow.kind == entry.kind && entry.types.contains(flow.dtype)) return true;
    }
    return false;
  }

  static bool is_variadic(const std::vector<ops::Parameter>& parameters, std::size_t i) {
    return i < parameters.size() && parameters[i].option == ops::variadic;
  }

  // Per-axis quantisation came with version 13.
  std::int64_t version_for_scale() const {
    if (node_.op != "QuantizeLinear" && node_.op != "DequantizeLinear") return 1;
    if (!has_input(1)) return 1;
    const ir::ValueType& scale = graph_.value(node_.inputs[1]).type;
    if (!scale.is_tensor() || !scale.dims || scale.dims->empty()) return 1;
    const bool one = scale.dims->size() == 1 && (*scale.dims)[0] == ir::Dim(1);
    return one ? 1 : 13;
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const ops::OpDef* op_;
};

}  // namespace

std::int64_t dtype_version(DType dtype) {
  switch (dtype) {
    case DType::i2:
    case DType::u2:
      return 25;
    case DType::f8e8m0:
      return 24;
    case DType::f4e2m1:
      return 23;
    case DType::i4:
    case DType::u4:
      return 21;
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      return 19;
    case DType::bf16:
      return 13;
    default:
      return 1;
  }
}

std::int64_t ir_version_of(std::int64_t opset) {
  if (opset <= 8) return 3;
  if (opset <= 9) return 4;
  if (opset <= 10) return 5;
  if (opset <= 11) return 6;
  if (opset <= 14) return 7;
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  if (opset <= 23) return 11;
  if (opset <= 24) return 12;
  return 13;
}

std::int64_t form_version(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t border = node.op.find("::");
  const std::string_view domain = border == std::string::npos ? "" : std::string_view(node.op).substr(0, border);
  const std::span<const HistoryEntry> history = history_of(node.op);
  const ops::OpDef* known = ops::find_op(node.op);
  if (history.empty() && !domain.empty() && domain != "ai.onnx.ml")
    return known != nullptr ? std::max(known->since, 1) : std::max<std::int64_t>(newest_version(domain), 1);
  const NodeForm form(graph, node);
  std::int64_t version = form.version_for_values();
  for (const HistoryEntry& entry : history) {
    if (!entry.gone && entry.version > version && form.uses(entry)) version = entry.version;
  }
  return version;
}

std::int64_t last_version(const ir::Node& node) {
  for (const HistoryEntry& entry : history_of(node.op)) {
    if (entry.gone) return entry.version - 1;
  }
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace tessera::io
