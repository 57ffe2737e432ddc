// Channels that can be taken out of a net together, and the net without them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::compress {

// A channel of a value is an entry of its axis 1. Channels that a sum, a depthwise convolution or another element-wise
// operator ties belong to one set: they stay or go together.
class ChannelSets {
 public:
  // Of a graph whose types are inferred.
  explicit ChannelSets(const ir::Graph& graph);

  // A set with what it is made of.
  struct Set {
    std::vector<std::pair<std::size_t, std::int64_t>> outputs;  // of a layer of layers(): its number, the channel
  };
  // Layers that make channels: their nodes.
  const std::vector<ir::NodeId>& layers() const { return layers_; }
  // Sets that may go, by families: those of a family are made by the same layers. In the order of the layers.
  std::vector<std::vector<Set>> families() const;
  // Why channels have to stay, of each operator that keeps some: "Softmax 'attention'".
  const std::vector<std::string>& reasons() const { return reasons_; }

  // Takes these sets out.
  void remove(const Set& set);
  // Numbers of the channels of a value that are left; all, where it has none.
  std::vector<std::int64_t> kept(ir::ValueId value) const;
  bool has_channels(ir::ValueId value) const { return channels_.contains(value); }

 private:
  void visit(const ir::Graph& graph, ir::NodeId id);
  bool visit_layer(const ir::Graph& graph, ir::NodeId id);
  bool pass_on(const ir::Graph& graph, const ir::Node& node);
  bool flatten(const ir::Graph& graph, const ir::Node& node);
  std::vector<int>& make(const ir::Graph& graph, ir::ValueId value);
  void keep(ir::ValueId value);
  int root(int channel) const;
  void tie(int a, int b);

  std::map<ir::ValueId, std::vector<int>> channels_;
  mutable std::vector<int> parents_;
  std::vector<bool> fixed_, removed_;                         // by root
  std::vector<std::pair<std::size_t, std::int64_t>> makers_;  // layer and channel, by channel; layer -1: none
  std::vector<ir::NodeId> layers_;
  std::vector<std::string> reasons_;
};

// The graph with smaller constants, so that the channels that `sets` removed are gone.
ir::Graph without_channels(ir::Graph graph, const ChannelSets& sets);

}  // namespace tessera::compress
