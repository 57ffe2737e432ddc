// Replaces Slices and Gathers of neighbouring rows that together take all of a value along one axis by one Split.
#include <algorithm>
#include <map>
#include <optional>

#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// The part of its data that a node takes: `count` neighbours from `start` along one axis, in order.
struct CropPart {
  NodeId node;
  std::int64_t axis = 0, start = 0, count = 0;
};

std::optional<CropPart> part_of_slice(const ir::Graph& graph, NodeId id) {
  const std::optional<ops::SliceRequest> request = slice_request_of(graph, graph.node(id));
  if (!request || request->axes.size() != 1) return std::nullopt;
  const ir::Dim& dim = (*dims_of(graph, graph.node(id).inputs[0]))[static_cast<std::size_t>(request->axes[0])];
  if (!dim.is_known() || request->steps[0] != 1) return std::nullopt;
  const ops::SliceRange range = ops::slice_range(dim.value(), request->starts[0], request->ends[0], 1);
  return CropPart{id, request->axes[0], range.start, range.count};
}

std::optional<CropPart> part_of_gather(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  const ir::Dims *dims = dims_of(graph, node.inputs[0]), *shape = dims_of(graph, node.inputs[1]);
  const std::optional<std::vector<std::int64_t>> indices = constant_integers(graph, node, 1);
  if (dims == nullptr || shape == nullptr || shape->size() != 1 || !indices || indices->empty()) return std::nullopt;
  const std::int64_t axis = ops::normalise_axis(ops::AttributeReader(node, ops::op_of(node)).integer("axis"),
                                                static_cast<std::int64_t>(dims->size()));
  const ir::Dim& dim = (*dims)[static_cast<std::size_t>(axis)];
  if (!dim.is_known()) return std::nullopt;
  const auto position = [&](std::int64_t index) { return index < 0 ? index + dim.value() : index; };
  const bool inside =
      std::ranges::all_of(*indices, [&](std::int64_t index) { return index >= -dim.value() && index < dim.value(); });
  if (!inside) return std::nullopt;
  const std::int64_t start = position((*indices)[0]);
  for (std::size_t i = 0; i < indices->size(); ++i) {
    if (position((*indices)[i]) != start + static_cast<std::int64_t>(i)) return std::nullopt;
  }
  return CropPart{id, axis, start, static_cast<std::int64_t>(indices->size())};
}

std::optional<CropPart> part_of(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  if ((node.op != "Slice" && node.op != "Gather") || !node.outputs[0].valid() || !node.inputs[0].valid())
    return std::nullopt;
  return node.op == "Slice" ? part_of_slice(graph, id) : part_of_gather(graph, id);
}

// Whether the parts, in order of their starts, cover 0 to `size` without gaps or overlaps.
bool are_whole(const std::vector<CropPart>& parts, std::int64_t size) {
  std::int64_t end = 0;
  for (const CropPart& part : parts) {
    if (part.start != end || part.count < 1) return false;
    end += part.count;
  }
  return end == size;
}

// Replaces the parts by a Split. `parts` are in the order of the graph: the place of the first one comes before all
// users.
void split(ir::Graph& graph, std::vector<CropPart> parts) {
  const NodeId place = parts[0].node;
  const ValueId value = graph.node(place).inputs[0];
  const std::int64_t axis = parts[0].axis;
  std::ranges::sort(parts, {}, &CropPart::start);
  if (!are_whole(parts, (*dims_of(graph, value))[static_cast<std::size_t>(axis)].value())) return;
  std::vector<std::int64_t> sizes;
  ir::Node node{"Split", graph.node(place).name, {}, {}, {{"axis", axis}}, 0};
  for (const CropPart& part : parts) {
    sizes.push_back(part.count);
    ir::Node taken = graph.node(part.node);
    node.outputs.push_back(taken.outputs[0]);
    taken.outputs.clear();
    graph.replace_node(part.node, std::move(taken));
  }
  const auto count = static_cast<std::int64_t>(sizes.size());
  node.inputs = {value,
                 graph.add_constant(Tensor::from<std::int64_t>(Shape{count}, std::span<const std::int64_t>(sizes)))};
  graph.replace_node(place, std::move(node));
}

}  // namespace

ir::Graph merge_crops(ir::Graph graph, const PassContext&) {
  std::map<std::pair<ValueId, std::int64_t>, std::vector<CropPart>> parts;  // by value and axis
  for (const NodeId id : graph.order()) {
    if (const std::optional<CropPart> part = part_of(graph, id))
      parts[{graph.node(id).inputs[0], part->axis}].push_back(*part);
  }
  for (const auto& [where, together] : parts) {
    if (together.size() > 1) split(graph, together);
  }
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
