// The outputs that a run is asked for, and the caller's memory that they are bound to.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "tessera/session.h"

namespace tessera::runtime {

// The graph's outputs that are asked for, by index, in the order of the requests. Throws Error(invalid_argument) for a
// name that no output has or that is asked for twice, and for memory that no output can be written to: of strings, of
// another element type than declared, overlapping.
std::vector<std::size_t> find_outputs(const ir::Graph& graph, const std::vector<OutputRequest>& requests);

// Throws Error(invalid_argument) unless an output of this type and shape fits the memory exactly.
void check_bound(const std::string& name, DType type, const Shape& shape, const Tensor& memory);

// Whether the bytes of the two tensors overlap.
bool overlap(const Tensor& a, const Tensor& b);
// Whether the bytes of the tensor overlap those of any tensor in the value.
bool overlap(const Value& value, const Tensor& memory);

// Whether a kernel may write the output to this memory in a run of these inputs, instead of having it copied there when
// all inputs have been read.
bool is_writable_during(const Tensor& memory, std::span<const Value> inputs);

}  // namespace tessera::runtime
