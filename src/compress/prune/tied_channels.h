// Channels of the values of a graph, some of which are tied: those of a set stay or go together.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compress {

// What goes together: outputs of layers, each the layer's number and the channel.
struct ChannelSet {
  std::vector<std::pair<std::size_t, std::int64_t>> outputs;
};

// A disjoint-set forest. Channels are numbered as they are made.
class TiedChannels {
 public:
  static constexpr auto kNoLayer = static_cast<std::size_t>(-1);

  // A channel that the layer makes, or that none makes.
  int make(std::size_t layer, std::int64_t channel);
  void tie(int a, int b);
  // Its set has to stay.
  void keep(int channel);
  // A channel that stands for all of its set.
  int set_of(int channel) const { return root(channel); }
  bool is_kept(int channel) const { return fixed_[at(root(channel))]; }
  // Sets that may go, by families: those of a family are made by the same layers. In the order of the layers.
  std::vector<std::vector<ChannelSet>> families() const;
  // Takes the set out.
  void remove(const ChannelSet& set);
  // Which of these are left, by their place.
  std::vector<std::int64_t> left(const std::vector<int>& channels) const;
  int size() const { return static_cast<int>(parents_.size()); }

 private:
  static std::size_t at(int channel) { return static_cast<std::size_t>(channel); }
  int root(int channel) const;

  mutable std::vector<int> parents_;
  std::vector<bool> fixed_, removed_;                         // by root
  std::vector<std::pair<std::size_t, std::int64_t>> makers_;  // by channel
};

}  // namespace tessera::compress
