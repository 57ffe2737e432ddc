#include "compress/prune/tied_channels.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera::compress {

int TiedChannels::make(std::size_t layer, std::int64_t channel) {
  const int made = size();
  parents_.push_back(made);
  fixed_.push_back(false);
  removed_.push_back(false);
  makers_.emplace_back(layer, channel);
  return made;
}

int TiedChannels::root(int channel) const {
  while (parents_[at(channel)] != channel) {
    int& parent = parents_[at(channel)];
    parent = parents_[at(parent)];
    channel = parent;
  }
  return channel;
}

void TiedChannels::tie(int a, int b) {
  a = root(a);
  b = root(b);
  if (a == b) return;
  parents_[at(std::max(a, b))] = std::min(a, b);
  if (fixed_[at(std::max(a, b))]) fixed_[at(std::min(a, b))] = true;
}

void TiedChannels::keep(int channel) {
  fixed_[at(root(channel))] = true;
}

std::vector<std::vector<ChannelSet>> TiedChannels::families() const {
  std::map<int, ChannelSet> sets;
  for (int i = 0; i < size(); ++i) {
    if (!is_kept(i) && makers_[at(i)].first != kNoLayer) sets[root(i)].outputs.push_back(makers_[at(i)]);
  }
  std::map<std::set<std::size_t>, std::vector<ChannelSet>> families;
  for (auto& [first, set] : sets) {
    std::set<std::size_t> makers;
    for (const auto& [layer, channel] : set.outputs) makers.insert(layer);
    families[makers].push_back(std::move(set));
  }
  std::vector<std::vector<ChannelSet>> all;
  for (auto& [makers, family] : families) all.push_back(std::move(family));
  return all;
}

void TiedChannels::remove(const ChannelSet& set) {
  for (const auto& output : set.outputs) {
    for (int i = 0; i < size(); ++i) {
      if (makers_[at(i)] == output) removed_[at(root(i))] = true;
    }
  }
}

std::vector<std::int64_t> TiedChannels::left(const std::vector<int>& channels) const {
  std::vector<std::int64_t> left;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (!removed_[at(root(channels[i]))]) left.push_back(static_cast<std::int64_t>(i));
  }
  return left;
}

}  // namespace tessera::compress
