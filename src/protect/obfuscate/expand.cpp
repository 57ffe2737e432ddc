// Decoys and redundancy: edges and nodes that change nothing.
#include <algorithm>

#include "ops/op_table.h"
#include "protect/obfuscate/passes.h"

namespace tessera::protect {
namespace {

// The values that a graph has at each node: where each is computed, and where it is read last.
class Lifetimes {
 public:
  explicit Lifetimes(const ir::Graph& graph) : first_(graph.value_count(), -1), last_(graph.value_count(), -1) {
    std::int64_t at = 0;
    for (const ir::NodeId id : graph.order()) {
      for (const ir::ValueId value : graph.node(id).inputs) {
        if (value.valid()) last_[static_cast<std::size_t>(value.index)] = at;
      }
      for (const ir::ValueId value : graph.node(id).outputs) {
        if (value.valid()) first_[static_cast<std::size_t>(value.index)] = at;
      }
      ++at;
    }
    for (const ir::ValueId value : graph.inputs()) last_[static_cast<std::size_t>(value.index)] = at;
  }
  // Whether the value is there before and after a node, so that another reader keeps it no longer.
  bool lives_at(ir::ValueId value, std::int64_t at) const {
    return first_[static_cast<std::size_t>(value.index)] < at && last_[static_cast<std::size_t>(value.index)] >= at;
  }

 private:
  std::vector<std::int64_t> first_, last_;
};

bool has_bytes(const ir::ValueType& type) {
  return type.is_tensor() && type.dims && !type.dims->empty() && type.dtype != DType::undefined &&
         type.dtype != DType::string && bits_of(type.dtype) >= 8;
}

// Puts a node that gives its first operand between a value and one of its readers.
void insert(ir::Graph& graph, ir::NodeId reader, std::size_t input, const std::string& op,
            std::vector<ir::ValueId> more) {
  const ir::ValueId value = graph.node(reader).inputs[input];
  more.insert(more.begin(), value);
  const ir::ValueType type = graph.value(value).type;
  const ir::ValueId same = graph.add_op(op, std::move(more));
  graph.value(same).type = type;
  graph.node(reader).inputs[input] = same;
}

// The share of the edges that get something.
double share_of(const Obfuscation& state) {
  return state.degree > 2 ? 0.8 : 0.6;
}

struct Edge {
  ir::NodeId reader;
  std::size_t input;
  std::int64_t at;  // the reader's place in the order
};

// Edges of computed values to nodes that read tensors alone.
std::vector<Edge> edges_of(const ir::Graph& graph) {
  std::vector<Edge> edges;
  std::int64_t at = 0;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    for (std::size_t i = 0; i < node.formal_inputs() && node.captures == 0; ++i) {
      const ir::ValueId value = node.inputs[i];
      if (value.valid() && graph.value(value).origin == ir::Origin::node && has_bytes(graph.value(value).type))
        edges.push_back({id, i, at});
    }
    ++at;
  }
  return edges;
}

}  // namespace

ir::Graph add_decoys(ir::Graph graph, Obfuscation& state) {
  constexpr std::int64_t kMostBytes = 64 << 10;  // larger constants may stay in the file otherwise
  const Lifetimes lifetimes(graph);
  const std::size_t values = graph.value_count();
  for (const Edge& edge : edges_of(graph)) {
    if (!state.dice.chance(share_of(state))) continue;
    const ir::Node& reader = graph.node(edge.reader);
    std::vector<ir::ValueId> decoys;
    for (std::size_t i = 0; i < values; ++i) {
      const ir::ValueId value{static_cast<std::int32_t>(i)};
      if (!has_bytes(graph.value(value).type) || value == reader.inputs[edge.input]) continue;
      const Tensor* constant = graph.constant(value);
      const bool is_there = constant != nullptr ? constant->bytes() <= kMostBytes && constant->has_data()
                                                : lifetimes.lives_at(value, edge.at);
      if (is_there) decoys.push_back(value);
    }
    if (decoys.empty()) continue;
    insert(graph, edge.reader, edge.input, "tessera::After", {decoys[state.dice.below(decoys.size())]});
    ++state.decoy_edges;
  }
  graph.sort_topologically();
  return graph;
}

ir::Graph add_redundancy(ir::Graph graph, Obfuscation& state) {
  constexpr std::int64_t kMostElements = 4096;  // of a value that is computed a second time
  for (const Edge& edge : edges_of(graph)) {
    if (!state.dice.chance(share_of(state))) continue;
    const ir::ValueId value = graph.node(edge.reader).inputs[edge.input];
    const ir::ValueType type = graph.value(value).type;
    const ir::Node& producer = graph.node(graph.value(value).producer);
    const ops::OpDef& op = ops::op_of(producer);
    const std::optional<Shape> shape = type.shape();
    const bool is_small = shape && element_count(*shape) <= kMostElements;
    if (is_small && op.has(ops::Trait::idempotent) && producer.inputs.size() == 1 && producer.attributes.empty()) {
      insert(graph, edge.reader, edge.input, producer.op, {});
    } else {  // 0 copies a dimension
      const std::vector<std::int64_t> same(type.dims->size(), 0);
      insert(graph, edge.reader, edge.input, "Reshape",
             {graph.add_constant(Tensor::from<std::int64_t>({static_cast<std::int64_t>(same.size())}, same))});
    }
    ++state.redundant_nodes;
  }
  graph.sort_topologically();
  return graph;
}

}  // namespace tessera::protect
