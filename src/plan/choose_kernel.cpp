#include "plan/choose_kernel.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/core/node_operands.h"
#include "ops/op_table.h"

namespace tessera::plan {

namespace {

bool takes(const backends::Device& device, const backends::KernelEntry& entry, const ops::NodeView& view) {
  return backends::reason_to_reject(entry, view, device.properties()).empty();
}

// Why the kernel is passed over when there are no measurements, or "".
std::string reason_against(const backends::Device& device, const backends::KernelEntry& entry,
                           const ops::NodeView& view) {
  std::string reason = backends::reason_to_reject(entry, view, device.properties());
  return reason.empty() ? backends::reason_to_avoid(entry, view, device.properties()) : reason;
}

std::string slower(const MeasuredKernels& measured, std::string_view kernel) {
  const auto other = measured.seconds.find(kernel), fastest = measured.seconds.find(measured.fastest);
  if (other == measured.seconds.end() || fastest == measured.seconds.end())
    return fmt::format("{} was measured to be faster", measured.fastest);
  return fmt::format("measured {:.4g} us, {} {:.4g} us", other->second * 1e6, measured.fastest, fastest->second * 1e6);
}

}  // namespace

KernelChoice choose_kernel(const backends::Device& device, const ops::NodeView& view, const MeasuredKernels* measured) {
  const std::span<const backends::KernelEntry* const> entries = device.kernels_for(view.op().name);
  const bool follow = measured != nullptr && std::ranges::any_of(entries, [&](const backends::KernelEntry* entry) {
                        return entry->name == measured->fastest && takes(device, *entry, view);
                      });
  KernelChoice choice;
  for (const backends::KernelEntry* entry : entries) {
    std::string reason;
    if (!follow || !takes(device, *entry, view)) reason = reason_against(device, *entry, view);
    else if (entry->name != measured->fastest) reason = slower(*measured, entry->name);
    if (reason.empty()) {
      choice.entry = entry;
      return choice;
    }
    choice.rejected.push_back(std::string(entry->name).append(": ").append(reason));
  }
  // No kernel is expected to be fast: the first one that accepts the node is taken.
  const auto slow = std::ranges::find_if(entries, [&](const auto* entry) { return takes(device, *entry, view); });
  if (slow != entries.end()) {
    choice.entry = *slow;
    return choice;
  }
  if (choice.rejected.empty())
    fail(ErrorKind::unsupported, "device '{}' has no kernel for {}", device.name(), view.op().name);
  fail(ErrorKind::unsupported, "no kernel of device '{}' takes this {}: {}", device.name(), view.op().name,
       fmt::join(choice.rejected, "; "));
}

std::vector<const backends::KernelEntry*> accepting_kernels(const backends::Device& device, const ops::NodeView& view) {
  std::vector<const backends::KernelEntry*> accepting;
  for (const backends::KernelEntry* entry : device.kernels_for(view.op().name)) {
    if (!entry->is_stand_in && takes(device, *entry, view)) accepting.push_back(entry);
  }
  return accepting;
}

bool accepts(const backends::Device& device, const ops::NodeView& view) {
  return std::ranges::any_of(device.kernels_for(view.op().name), [&](const backends::KernelEntry* entry) {
    return !entry->is_stand_in && entry->op == view.op().name && reason_against(device, *entry, view).empty();
  });
}

namespace {

// Returns the body's result for the node as kernels see it, or `otherwise` if a type is not concrete.
template <typename Body>
auto with_view(const ir::Graph& graph, const ir::Node& node,
               decltype(std::declval<Body>()(std::declval<const ops::NodeView&>())) otherwise, Body body) {
  ops::NodeOperands operands(graph, node);
  // Kernels ask for the type of output 0; a node from a file may have no outputs.
  if (operands.outputs.empty()) operands.outputs.emplace_back();
  return operands.are_concrete(node) ? body(operands.view(node)) : otherwise;
}

}  // namespace

bool may_accept(const backends::Device& device, const ir::Graph& graph, const ir::Node& node) {
  const std::string_view op = ops::op_of(node).name;
  const auto entries = device.kernels_for(op);
  const bool known = std::any_of(entries.begin(), entries.end(), [&](const backends::KernelEntry* entry) {
    return !entry->is_stand_in && entry->op == op;
  });
  if (!known) return false;
  // A kernel is chosen by the sizes of the operands, also where those of results depend on data.
  ops::NodeOperands operands(graph, node);
  if (operands.outputs.empty()) operands.outputs.emplace_back();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].valid() && operands.inputs[i].dtype == DType::undefined) return true;
  }
  return accepts(device, operands.view(node));
}

std::string reason_against_device(const backends::Device& device, const ir::Graph& graph, const ir::Node& node) {
  if (!ir::subgraphs_of(node).empty()) return "control flow runs on the host";
  const auto any = [&](auto predicate) {
    const auto holds = [&](ir::ValueId id) { return id.valid() && predicate(graph.value(id).type); };
    return std::ranges::any_of(node.inputs, holds) || std::ranges::any_of(node.outputs, holds);
  };
  if (any([](const ir::ValueType& type) { return !type.is_tensor(); })) return "it handles values that are not tensors";
  if (any([](const ir::ValueType& type) { return type.dtype == DType::string; })) return "it handles strings";
  return with_view(graph, node, std::string("sizes of its operands depend on data"), [&](const ops::NodeView& view) {
    try {
      choose_kernel(device, view);
      return std::string();
    } catch (const Error& error) {
      return error.message();
    }
  });
}

const backends::KernelEntry* find_kernel(const backends::Device& device, const ir::Graph& graph, const ir::Node& node) {
  return with_view(graph, node, static_cast<const backends::KernelEntry*>(nullptr),
                   [&](const ops::NodeView& view) -> const backends::KernelEntry* {
                     for (const backends::KernelEntry* entry : device.kernels_for(view.op().name)) {
                       if (reason_against(device, *entry, view).empty()) return entry;
                     }
                     return nullptr;
                   });
}

}  // namespace tessera::plan
