#include "plan/view_offsets.h"

#include <algorithm>

#include "ops/core/after.h"
#include "ops/core/shape_arguments.h"
#include "ops/movement/concat.h"
#include "ops/movement/slice.h"

namespace tessera::plan {
namespace {

using Offsets = std::optional<std::vector<std::int64_t>>;

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t result = 1;
  for (std::size_t i = first; i < last; ++i) result *= shape[i];
  return result;
}

// The offset of the slice's first element, in elements; nothing if the slice is not contiguous.
std::optional<std::int64_t> slice_offset(const ir::Graph& graph, const ir::Node& node, const Shape& data) {
  const std::optional<ops::SliceRequest> request = ops::slice_request_of(graph, node);
  if (!request) return std::nullopt;
  Shape taken = data;
  std::int64_t offset = 0;
  std::size_t innermost = 0;  // the last axis that is not taken whole
  for (std::size_t i = 0; i < request->axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(request->axes[i]);
    const ops::SliceRange range = ops::slice_range(data[axis], request->starts[i], request->ends[i], request->steps[i]);
    if (range.step != 1 && range.count != 1) return std::nullopt;
    taken[axis] = range.count;
    offset += range.start * product(data, axis + 1, data.size());
    if (range.count != data[axis]) innermost = std::max(innermost, axis);
  }
  return product(taken, 0, innermost) == 1 ? std::optional(offset) : std::nullopt;
}

std::optional<std::int64_t> gather_offset(const ir::Graph& graph, const ir::Node& node, const Shape& data,
                                          std::size_t axis) {
  const auto indices = ops::constant_integers(graph, node, 1);
  if (!indices || indices->size() != 1 || product(data, 0, axis) != 1) return std::nullopt;
  const std::int64_t index = (*indices)[0] < 0 ? (*indices)[0] + data[axis] : (*indices)[0];
  return index >= 0 && index < data[axis] ? std::optional(index * product(data, axis + 1, data.size())) : std::nullopt;
}

// The offsets of the parts of a Split, whose sizes are those of the outputs.
Offsets split_offsets(const ir::Graph& graph, const ir::Node& node, const Shape& data, std::size_t axis) {
  if (product(data, 0, axis) != 1) return std::nullopt;
  const auto given = ops::constant_integers(graph, node, 1);
  if (!given && node.inputs.size() > 1 && node.inputs[1].valid()) return std::nullopt;
  const std::vector<std::int64_t> sizes =
      given ? *given : ops::split_evenly(data[axis], static_cast<std::int64_t>(node.outputs.size()));
  std::vector<std::int64_t> offsets{0};
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    offsets.push_back(offsets.back() + sizes[i] * product(data, axis + 1, data.size()));
  return offsets;
}

}  // namespace

Offsets view_offsets(const ir::Graph& graph, const ir::Node& node, const ops::OpDef& op) {
  if (op.view || &op == &ops::after) return std::vector<std::int64_t>{0};
  if (op.name != "Slice" && op.name != "Split" && op.name != "Gather") return std::nullopt;
  const ir::ValueType& type = graph.value(node.inputs[0]).type;
  const std::optional<Shape> data = type.shape();
  if (!data || type.dtype == DType::string || bits_of(type.dtype) < 8 || std::ranges::find(*data, 0) != data->end())
    return std::nullopt;
  const auto axis = [&] {
    return static_cast<std::size_t>(
        ops::normalise_axis(ops::AttributeReader(node, op).integer("axis"), static_cast<std::int64_t>(data->size())));
  };
  Offsets offsets;
  if (op.name == "Split") {
    offsets = split_offsets(graph, node, *data, axis());
  } else if (const auto offset =
                 op.name == "Slice" ? slice_offset(graph, node, *data) : gather_offset(graph, node, *data, axis())) {
    offsets = std::vector{*offset};
  }
  if (offsets)
    std::ranges::transform(*offsets, offsets->begin(),
                           [&](std::int64_t elements) { return elements * (bits_of(type.dtype) / 8); });
  return offsets;
}

bool lie_in_their_join(const Shape& result, std::int64_t axis) {
  return product(result, 0,
                 static_cast<std::size_t>(ops::normalise_axis(axis, static_cast<std::int64_t>(result.size())))) == 1;
}

}  // namespace tessera::plan
