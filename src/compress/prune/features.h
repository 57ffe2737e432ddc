// Features that can be taken out of a net together: channels, or heads of attention.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compress/prune/feature_layout.h"
#include "compress/prune/tied_channels.h"
#include "ir/graph.h"

namespace tessera::compress {

enum class FeatureKind : std::uint8_t {
  channels,  // outputs of convolutions and of products with a matrix, but those of heads
  heads,     // of attention: what a Reshape makes heads of, and products of two activations keep apart
};

// Follows the outputs of layers (convolutions and products with a constant matrix) through the net to the layers that
// read them, along whatever axes Reshape, Transpose and the like put them. What a sum, a depthwise convolution or
// another element-wise operator ties stays or goes together; so do, of each head, the outputs of the projections of
// queries, keys and values. Features stay where an operator does not treat them one by one.
class FeatureSets {
 public:
  // Of a graph whose types are inferred, and the shapes of whose Reshapes are constant.
  FeatureSets(const ir::Graph& graph, FeatureKind kind);

  // Layers that make features: their nodes. Sets name them by their number here.
  const std::vector<ir::NodeId>& layers() const { return layers_; }
  // Sets that may go, as TiedChannels gives them: one for each channel or head.
  std::vector<std::vector<ChannelSet>> families() const { return tied_.families(); }
  // Why features of this kind have to stay, of each operator that keeps some: "node 'attention' (Softmax)".
  const std::vector<std::string>& reasons() const { return reasons_; }

  void remove(const ChannelSet& set) { tied_.remove(set); }
  bool has_features(ir::ValueId value) const { return value.valid() && values_.contains(value); }
  bool has_features(ir::ValueId value, std::size_t axis) const;
  const FeatureLayout& layout(ir::ValueId value) const { return values_.at(value); }
  // Entries of an axis that are left; empty where the axis has no features.
  std::vector<std::int64_t> kept(ir::ValueId value, std::size_t axis) const;
  // The same along the axis that a layer makes features on, and reads them from.
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
  FeatureLayout layout_of(const ir::Graph& graph, ir::ValueId value) const;  // without features: plain axes
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
  std::map<ir::ValueId, ir::NodeId> first_with_;  // the first layer with these weights
  std::vector<std::vector<ir::NodeId>> uses_;
  std::vector<std::pair<std::string, int>> keepers_;  // with a channel that is kept
  std::vector<std::string> reasons_;
};

// The graph with smaller constants, so that the features that `sets` removed are gone.
ir::Graph without_features(ir::Graph graph, const FeatureSets& sets);

// A convolution each of whose outputs is made of one input.
bool is_depthwise(const ir::Graph& graph, const ir::Node& node);

}  // namespace tessera::compress
