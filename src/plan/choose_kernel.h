// Picks the kernel for a node: the first entry in the device's table that accepts it and is not expected to be slow, or
// the one that was measured to be the fastest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tessera::plan {

struct KernelChoice {
  const backends::KernelEntry* entry = nullptr;
  // Entries that stand before it, each with its reason: "gemm_avx512: element type i32".
  std::vector<std::string> rejected;
};

// What measuring has found for a node.
struct MeasuredKernels {
  std::string fastest;
  std::map<std::string, double, std::less<>> seconds;  // a run of each kernel that was tried

  friend bool operator==(const MeasuredKernels&, const MeasuredKernels&) = default;
};

// Throws Error(unsupported) with all reasons when no kernel accepts the node. `measured`: its fastest kernel is taken
// if there is one of that name which accepts the node; may be null.
KernelChoice choose_kernel(const backends::Device& device, const ops::NodeView& view,
                           const MeasuredKernels* measured = nullptr);

// Every kernel of the device itself that accepts the node, in order of preference: no stand-ins.
std::vector<const backends::KernelEntry*> accepting_kernels(const backends::Device& device, const ops::NodeView& view);

// Whether the device itself has a kernel that takes the node; of a composite that has none, the parts run.
bool accepts(const backends::Device& device, const ops::NodeView& view);
// The same for a node of a graph; while the types of its operands are not concrete, whether there is a kernel for the
// operator.
bool may_accept(const backends::Device& device, const ir::Graph& graph, const ir::Node& node);
// The kernel that the device would run the node with unless others were measured to be faster; null while the types of
// its operands are not concrete, and when there is none.
const backends::KernelEntry* find_kernel(const backends::Device& device, const ir::Graph& graph, const ir::Node& node);

// Why the device cannot run the node with memory of its own, or "" if it can: it has no kernel for it, or the node
// handles strings, values that are not tensors, or sizes that depend on data.
std::string reason_against_device(const backends::Device& device, const ir::Graph& graph, const ir::Node& node);

}  // namespace tessera::plan
