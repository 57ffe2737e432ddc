// Channels that can be taken out of a net together, and the net without them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compress/tied_channels.h"
#include "ir/graph.h"

namespace tessera::compress {

// A channel of a value is an entry of its axis 1. Channels that a sum, a depthwise convolution or another element-wise
// operator ties belong to one set: they stay or go together.
class ChannelSets {
 public:
  // Of a graph whose types are inferred.
  explicit ChannelSets(const ir::Graph& graph);

  // Layers that make channels: their nodes. Sets name them by their number here.
  const std::vector<ir::NodeId>& layers() const { return layers_; }
  // Sets that may go, as TiedChannels gives them.
  std::vector<std::vector<ChannelSet>> families() const { return tied_.families(); }
  // Why channels have to stay, of each operator that keeps some: "Softmax 'attention'".
  const std::vector<std::string>& reasons() const { return reasons_; }

  void remove(const ChannelSet& set) { tied_.remove(set); }
  // Numbers of the channels of a value that are left; all, where it has none.
  std::vector<std::int64_t> kept(ir::ValueId value) const;
  bool has_channels(ir::ValueId value) const { return channels_.contains(value); }

 private:
  void visit(const ir::Graph& graph, ir::NodeId id);
  bool visit_layer(const ir::Graph& graph, ir::NodeId id);
  bool pass_on(const ir::Graph& graph, const ir::Node& node);
  bool flatten(const ir::Graph& graph, const ir::Node& node);
  void make(const ir::Graph& graph, ir::ValueId value);
  void keep(ir::ValueId value);

  TiedChannels tied_;
  std::map<ir::ValueId, std::vector<int>> channels_;
  std::vector<ir::NodeId> layers_;
  std::vector<std::string> reasons_;
};

// The graph with smaller constants, so that the channels that `sets` removed are gone.
ir::Graph without_channels(ir::Graph graph, const ChannelSets& sets);

}  // namespace tessera::compress
