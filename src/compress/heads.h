// Heads of attention that can be taken out of a net, and the net without them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compress/tied_channels.h"
#include "ir/graph.h"

namespace tessera::compress {

// Follows the outputs of products with constant matrices through what attention is spelt out by: where a Reshape splits
// them into heads, the outputs of a head belong together, and the heads of what is multiplied, added or masked later
// are tied to each other. A head goes where a product with a constant matrix reads it at last, so that query, key,
// value and output projections shrink together. Projections may be fused (one product, then Split, Slice, or a Reshape
// to [..., 3, heads, size] and Gather or Split).
class HeadSets {
 public:
  // `graph`: its types are inferred, and the shapes of its Reshapes are constant (see prepared_for_heads).
  explicit HeadSets(const ir::Graph& graph);

  // Layers that make heads: their nodes. Sets name them by their number here.
  const std::vector<ir::NodeId>& layers() const { return layers_; }
  // A set is a head of one attention, over all layers that make it; a family is the heads of one attention.
  std::vector<std::vector<ChannelSet>> families() const { return tied_.families(); }
  // Why heads have to stay, of each operator that keeps some.
  const std::vector<std::string>& reasons() const { return reasons_; }

  void remove(const ChannelSet& set) { tied_.remove(set); }
  // The axis of a value along which heads, or their elements, lie.
  std::size_t axis_of(ir::ValueId value) const { return values_.at(value).axis; }
  // Entries of that axis that are left; all, where it has none.
  std::vector<std::int64_t> kept(ir::ValueId value) const;
  bool has_channels(ir::ValueId value) const { return values_.contains(value); }

 private:
  struct Followed {
    std::size_t axis = 0;
    std::vector<int> channels;  // by entry of the axis
  };

  void visit(const ir::Graph& graph, ir::NodeId id);
  bool visit_layer(const ir::Graph& graph, ir::NodeId id);
  bool pass_on(const ir::Graph& graph, const ir::Node& node);
  bool reshape(const ir::Graph& graph, const ir::Node& node);
  bool split_heads(const ir::Graph& graph, const ir::Node& node, const Followed& from);
  bool merge_heads(const ir::Graph& graph, const ir::Node& node, const Followed& from);
  bool transpose(const ir::Graph& graph, const ir::Node& node);
  bool multiply(const ir::Graph& graph, const ir::Node& node);
  bool broadcast(const ir::Graph& graph, const ir::Node& node);
  bool divide(const ir::Graph& graph, const ir::Node& node);
  bool shift_axes(const ir::Graph& graph, const ir::Node& node);
  // Ties the channels of two values entry by entry; false where their number differs.
  bool tie(const Followed& a, const Followed& b);
  void keep(ir::ValueId value);

  TiedChannels tied_;
  std::map<ir::ValueId, Followed> values_;
  std::vector<bool> in_heads_;  // by channel
  std::vector<ir::NodeId> layers_;
  std::vector<std::string> reasons_;
};

// The graph with smaller constants, so that the heads that `sets` removed are gone.
ir::Graph without_heads(ir::Graph graph, const HeadSets& sets);

}  // namespace tessera::compress
