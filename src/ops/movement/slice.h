// Slice: a box of a tensor, with steps of either sign.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef slice;

// The part that Slice takes along one axis: `count` elements from `start`, `step` apart.
struct SliceRange {
  std::int64_t start = 0, step = 1, count = 0;
};
// Clamps as ONNX Slice says; any 64-bit values are safe. Throws Error(invalid_model) for a step of 0.
SliceRange slice_range(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step);

// starts, ends, axes and steps of one node, checked against each other and the rank; axes are in [0, rank).
struct SliceRequest {
  std::vector<std::int64_t> starts, ends, axes, steps;
};
SliceRequest slice_request(std::vector<std::int64_t> starts, std::vector<std::int64_t> ends,
                           std::optional<std::vector<std::int64_t>> axes,
                           std::optional<std::vector<std::int64_t>> steps, std::int64_t rank);

// The request of a Slice with constant bounds; nothing where bounds are computed, or the rank is unknown.
std::optional<SliceRequest> slice_request_of(const ir::Graph& graph, const ir::Node& slice);

// Whether the request takes all of data with these dimensions, known or not.
bool takes_all(const SliceRequest& request, const ir::Dims& dims);

}  // namespace tessera::ops
