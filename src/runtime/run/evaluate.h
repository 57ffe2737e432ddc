// Runs one node at once, without a plan: types are inferred from the actual inputs, a kernel is chosen and run. Used
// for constant folding, for steps whose shapes depend on data, and by tests.
#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"

namespace tessera::runtime {

class LateKernels;

// The type of a value as it is: concrete for a tensor.
ir::ValueType type_of(const Value& value);

// `inputs` holds one entry a formal input (an empty Value for an absent one). Returns one Value an output of the node.
// Nodes with subgraphs are refused with Error(unsupported): they need an executor. Errors carry the node's name.
// `planned`: types of the inputs, for what an empty sequence or map does not say itself; empty, or one per input.
// `kernels`: keeps the kernel for calls to come; null: it is made for this call. The parts of a composite that the
// device has no kernel for are made for each call.
std::vector<Value> evaluate_node(const backends::Device& device, const ir::Node& node, std::span<const Value> inputs,
                                 const backends::ExecutionResources& resources,
                                 std::span<const ir::ValueType> planned = {}, LateKernels* kernels = nullptr);

}  // namespace tessera::runtime
