#include "plan/choose_kernel.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/op_table.h"

namespace tessera::plan {

KernelChoice choose_kernel(const backends::Device& device, const ops::NodeView& view) {
  KernelChoice choice;
  for (const backends::KernelEntry* entry : device.kernels_for(view.op().name)) {
    std::string reason = entry->reject != nullptr ? entry->reject(view) : std::string();
    if (reason.empty()) {
      choice.entry = entry;
      return choice;
    }
    choice.rejected.push_back(fmt::format("{}: {}", entry->name, reason));
  }
  if (choice.rejected.empty()) fail(ErrorKind::unsupported, "device '{}' has no kernel for {}", device.name(), view.op().name);
  fail(ErrorKind::unsupported, "no kernel of device '{}' takes this {}: {}", device.name(), view.op().name, fmt::join(choice.rejected, "; "));
}

bool accepts(const backends::Device& device, const ops::NodeView& view) {
  const auto entries = device.kernels_for(view.op().name);
  return std::any_of(entries.begin(), entries.end(), [&](const backends::KernelEntry* entry) {
    return entry->op == view.op().name && (entry->reject == nullptr || entry->reject(view).empty());
  });
}

namespace {

// Calls body with the node as kernels see it; `otherwise` when a type is not concrete.
template <typename Body>
auto with_view(const ir::Graph& graph, const ir::Node& node, decltype(std::declval<Body>()(std::declval<const ops::NodeView&>())) otherwise, Body body) {
  std::vector<ops::TensorType> inputs, outputs;
  std::vector<const Tensor*> constants;
  bool concrete = true;
  const auto type_of = [&](ir::ValueId id) {
    if (!id.valid()) return ops::TensorType{};
    const ir::ValueType& type = graph.value(id).type;
    const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
    concrete = concrete && shape.has_value();
    return shape ? ops::TensorType{type.dtype, *shape} : ops::TensorType{};
  };
  for (const ir::ValueId input : node.inputs) {
    inputs.push_back(type_of(input));
    constants.push_back(input.valid() ? graph.constant(input) : nullptr);
  }
  for (const ir::ValueId output : node.outputs) outputs.push_back(type_of(output));
  // Kernels ask about output 0; a node of a file may have none.
  if (outputs.empty()) outputs.emplace_back();
  return concrete ? body(ops::NodeView(node, ops::op_of(node), inputs, outputs, constants)) : otherwise;
}

}  // namespace

bool may_accept(const backends::Device& device, const ir::Graph& graph, const ir::Node& node) {
  const auto entries = device.kernels_for(node.op);
  const bool known = std::any_of(entries.begin(), entries.end(), [&](const backends::KernelEntry* entry) { return entry->op == node.op; });
  return known && with_view(graph, node, true, [&](const ops::NodeView& view) { return accepts(device, view); });
}

const backends::KernelEntry* find_kernel(const backends::Device& device, const ir::Graph& graph, const ir::Node& node) {
  return with_view(graph, node, static_cast<const backends::KernelEntry*>(nullptr), [&](const ops::NodeView& view) -> const backends::KernelEntry* {
    for (const backends::KernelEntry* entry : device.kernels_for(view.op().name)) {
      if (entry->reject == nullptr || entry->reject(view).empty()) return entry;
    }
    return nullptr;
  });
}

}  // namespace tessera::plan
