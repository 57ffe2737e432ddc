// Finds features (channels, or heads of attention) that can be removed from a net together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compress/prune/feature_layout.h"
#include "compress/prune/tied_channels.h"
#include "ir/graph.h"

namespace tessera::compress {

enum class FeatureKind : std::uint8_t {
  channels,  // outputs of convolutions and of products with a matrix, except those of heads
  heads,     // heads of attention: an axis made by a Reshape that products of two activations keep apart
};

// Follows the outputs of layers (convolutions and products with a constant matrix) through the net to the layers that
// read them, along whatever axes Reshape, Transpose and similar operators put them. Features that a sum, a depthwise
// convolution or another element-wise operator ties together stay or go together; so do, for each head, the outputs of
// the projections of queries, keys and values. Features stay if an operator on their way does not treat them one by
// one.
class FeatureSets {
 public:
  // Expects a graph with inferred types, in which the shapes of Reshapes are constant.
  FeatureSets(const ir::Graph& graph, FeatureKind kind);

  // The nodes of the layers that make features. Sets name a layer by its index here.
  const std::vector<ir::NodeId>& layers() const { return layers_; }
  // The sets that may be removed, one per channel or head, as TiedChannels::families() gives them.
  std::vector<std::vector<ChannelSet>> families() const { return tied_.families(); }
  // The reasons why features of this kind have to stay, one per operator that keeps some: "node 'attention' (Softmax)".
  const std::vector<std::string>& reasons() const { return reasons_; }

  void remove(const ChannelSet& set) { tied_.remove(set); }
  bool has_features(ir::ValueId value) const { return value.valid() && values_.contains(value); }
  bool has_features(ir::ValueId value, std::size_t axis) const;
  const FeatureLayout& layout(ir::ValueId value) const { return values_.at(value); }
  // The entries of an axis that are left; empty if the axis has no features.
  std::vector<std::int64_t> kept(ir::ValueId value, std::size_t axis) const;
  // The entries that are left along the axis on which a layer makes or reads features.
  std::vector<std::int64_t> kept(ir::ValueId value) const;

 private:
  void visit(const ir::Graph& graph, ir::NodeId id);
  bool visit_layer(const ir::Graph& graph, ir::NodeId id);
  bool pass_on(const ir::Graph& graph, const ir::Node& node);
  bool pass_along_axes(const ir::Graph& graph, const ir::Node& node);
  bool concatenate(const ir::Graph& graph, const ir::Node& node);
  bool reshape(const ir::Graph& graph, const ir::Node& node);
  bool multiply(const ir::Graph& graph, const ir::Node& node);
  bool broadcast(const ir::Graph& graph, const ir::Node& node);
  bool divide(const ir::Graph& graph, const ir::Node& node);
  bool reduce(const ir::Graph& graph, const ir::Node& node);
  bool pick(const ir::Graph& graph, const ir::Node& node);
  bool shift_axes(const ir::Graph& graph, const ir::Node& node);
  FeatureLayout layout_of(const ir::Graph& graph, ir::ValueId value) const;  // plain axes for a value without features
  bool reads_other_sizes(const ir::Graph& graph, const ir::Node& shape) const;
  void tie(const std::vector<int>& a, const std::vector<int>& b);
  void tie_shared(const ir::Graph& graph, ir::NodeId id);
  void keep(ir::ValueId value);
  void keep_what_is_no_slab();
  void keep_other_kind(FeatureKind kind);

  TiedChannels tied_;
  std::map<ir::ValueId, FeatureLayout> values_;
  std::vector<int> in_heads_;  // channels
  std::vector<ir::NodeId> layers_;
  std::map<ir::ValueId, ir::NodeId> first_with_;  // first layer with these weights
  std::vector<std::vector<ir::NodeId>> uses_;
  std::vector<std::pair<std::string, int>> keepers_;  // reason, and a channel that is kept for it
  std::vector<std::string> reasons_;
};

// The graph with smaller constants, without the features that `sets` removed.
ir::Graph without_features(ir::Graph graph, const FeatureSets& sets);

// Whether the node is a convolution in which each output depends on one input channel.
bool is_depthwise(const ir::Graph& graph, const ir::Node& node);

}  // namespace tessera::compress
