// Picks the kernel for a node: the one that was measured to be the fastest, or else the first entry in the device's
// table that accepts the node and is not expected to be slow.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tessera::plan {

struct KernelChoice {
  const backends::KernelEntry* entry = nullptr;
  // The entries that were passed over, each with its reason: "gemm_avx512: element type i32".
  std::vector<std::string> rejected;
};

// The measured times of a node's kernels.
struct MeasuredKernels {
  std::string fastest;
  std::map<std::string, double, std::less<>> seconds;  // of one run, for each kernel that was tried

  friend bool operator==(const MeasuredKernels&, const MeasuredKernels&) = default;
};

// Throws Error(unsupported) with all reasons if no kernel accepts the node. `measured` may be null; its fastest kernel
// is taken if the device has one of that name and it accepts the node.
KernelChoice choose_kernel(const backends::Device& device, const ops::NodeView& view,
                           const MeasuredKernels* measured = nullptr);

// Every kernel of the device itself that accepts the node, in order of preference; stand-ins (KernelEntry::is_stand_in)
// are not among them.
std::vector<const backends::KernelEntry*> accepting_kernels(const backends::Device& device, const ops::NodeView& view);

// Whether the device itself has a kernel that accepts the node and is not expected to be slow. If this is false for a
// composite, its parts are run instead.
bool accepts(const backends::Device& device, const ops::NodeView& view);
// As accepts(), for a node of a graph. While the types of its operands are not concrete, whether there is a kernel for
// the operator at all.
bool may_accept(const backends::Device& device, const ir::Graph& graph, const ir::Node& node);
// The first kernel in the device's order that accepts the node and is not expected to be slow: the one that it runs
// unless another was measured to be faster. Null if there is none, or while the types of the operands are not concrete.
const backends::KernelEntry* find_kernel(const backends::Device& device, const ir::Graph& graph, const ir::Node& node);

// Why the device cannot run the node with memory of its own, or "" if it can. The reason may be that it has no kernel
// for it, that the node runs subgraphs, or that it handles strings, values that are not tensors, or sizes that depend
// on data.
std::string reason_against_device(const backends::Device& device, const ir::Graph& graph, const ir::Node& node);

}  // namespace tessera::plan
