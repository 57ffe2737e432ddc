// The channels of a graph's values, divided into sets whose channels stay or go together.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compress {

// Outputs of layers that stay or go together, each given by the layer's number and the channel.
struct ChannelSet {
  std::vector<std::pair<std::size_t, std::int64_t>> outputs;
};

// A disjoint-set forest of channels, which are numbered in the order of their creation.
class TiedChannels {
 public:
  static constexpr auto kNoLayer = static_cast<std::size_t>(-1);

  // A new channel, made by the layer or by none.
  int make(std::size_t layer, std::int64_t channel);
  void tie(int a, int b);
  // Makes the channel's whole set stay.
  void keep(int channel);
  // The channel that represents the set.
  int set_of(int channel) const { return root(channel); }
  bool is_kept(int channel) const { return fixed_[at(root(channel))]; }
  // The sets that may be removed, grouped into families of sets made by the same layers, in the order of the layers.
  std::vector<std::vector<ChannelSet>> families() const;
  // Removes all channels of the set.
  void remove(const ChannelSet& set);
  // The indices of those of these channels that are left.
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
