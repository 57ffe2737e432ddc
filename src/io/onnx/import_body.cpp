#include "io/onnx/import_body.h"

#include <algorithm>

namespace tessera::io {
namespace {

bool uses_input(const ir::Graph& body, std::size_t position, const std::vector<std::vector<ir::NodeId>>& uses) {
  const ir::ValueId input = body.inputs()[position];
  return !uses[static_cast<std::size_t>(input.index)].empty() || body.is_output(input);
}

// The value of integer attribute `name`, or 0.
std::int64_t integer_of(const std::vector<Importer::ResolvedAttribute>& attributes, std::string_view name) {
  for (const Importer::ResolvedAttribute& attribute : attributes) {
    if (attribute.name == name && attribute.value->has_i()) return attribute.value->i();
  }
  return 0;
}

// The type of a slice along `axes` axes; which axes does not matter, since only the rank is of use.
ir::ValueType slice_of(ir::ValueType type, std::size_t axes) {
  if (!type.is_tensor() || !type.dims) return type;
  if (type.dims->size() < axes) return ir::ValueType::tensor(type.dtype);
  type.dims->assign(type.dims->size() - axes, ir::Dim());
  return type;
}

}  // namespace

void drop_unused_captures(ir::Node& node) {
  const std::size_t formal = node.formal_inputs(), captures = static_cast<std::size_t>(node.captures);
  std::vector<bool> used(captures, false);
  for (const auto& [name, body] : ir::subgraphs_of(node)) {
    const std::vector<std::vector<ir::NodeId>> uses = body->compute_uses();
    const std::size_t first = body->inputs().size() - captures;
    for (std::size_t i = 0; i < captures; ++i) used[i] = used[i] || uses_input(*body, first + i, uses);
  }
  const auto kept = static_cast<std::size_t>(std::count(used.begin(), used.end(), true));
  if (kept == captures) return;
  const auto only_used = [&](std::vector<ir::ValueId> list, std::size_t first) {
    std::vector<ir::ValueId> result(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first));
    for (std::size_t i = 0; i < captures; ++i) {
      if (used[i]) result.push_back(list[first + i]);
    }
    return result;
  };
  for (auto& [name, attribute] : node.attributes) {
    auto* body = std::get_if<ir::SubgraphPointer>(&attribute);
    if (body == nullptr) continue;
    auto copy = std::make_shared<ir::Graph>(**body);
    copy->set_inputs(only_used(copy->inputs(), copy->inputs().size() - captures));
    *body = std::move(copy);
  }
  node.inputs = only_used(node.inputs, formal);
  node.captures = static_cast<std::int32_t>(kept);
}

std::vector<ir::ValueType> flowing_into_body(const ir::Graph& graph, const ir::Node& node,
                                             const std::vector<Importer::ResolvedAttribute>& attributes,
                                             std::int64_t version) {
  const bool is_scan = node.op == "Scan";
  const std::size_t skipped = node.op == "Loop" ? 2 : is_scan && version < 9 ? 1 : 0;  // trip count, condition; lengths
  const std::size_t batch_axes = is_scan && version < 9 ? 1 : 0;
  if ((node.op != "Loop" && !is_scan && node.op != "SequenceMap") || node.formal_inputs() < skipped) return {};
  const std::size_t count = node.formal_inputs() - skipped;
  const auto scanned = static_cast<std::size_t>(std::max<std::int64_t>(integer_of(attributes, "num_scan_inputs"), 0));
  std::vector<ir::ValueType> flowing(node.op == "Loop" ? 2 : 0);
  for (std::size_t i = 0; i < count; ++i) {
    const ir::ValueId input = node.inputs[skipped + i];
    ir::ValueType type = input.valid() ? graph.value(input).type : ir::ValueType{};
    if (node.op == "SequenceMap" && type.kind == ir::ValueType::Kind::sequence) type = ir::ValueType(*type.element);
    flowing.push_back(slice_of(std::move(type), batch_axes + (is_scan && i + scanned >= count ? 1 : 0)));
  }
  return flowing;
}

}  // namespace tessera::io
