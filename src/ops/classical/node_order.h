// Finds entries of lists by (tree, node), the keys of nodes and votes in the tree ensembles of ai.onnx.ml.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::ops {

// The order of entries of lists by (tree, node). Converters write them in order; then they are found without a search.
class NodeOrder {
 public:
  using Key = std::pair<std::int64_t, std::int64_t>;

  NodeOrder(const std::vector<std::int64_t>& trees, const std::vector<std::int64_t>& nodes) {
    entries_.reserve(trees.size());
    for (std::size_t i = 0; i < trees.size(); ++i) entries_.push_back({{trees[i], nodes[i]}, i});
    const auto before = [](const Entry& a, const Entry& b) { return a.key < b.key; };
    if (!std::ranges::is_sorted(entries_, before)) std::ranges::stable_sort(entries_, before);
  }

  // The place in this order of the first entry with the key, or of the one that would follow. `guess`: a likely place.
  std::size_t find(Key key, std::size_t guess) const {
    if (has(guess, key) && (guess == 0 || entries_[guess - 1].key < key)) return guess;
    return static_cast<std::size_t>(std::ranges::lower_bound(entries_, key, {}, &Entry::key) - entries_.begin());
  }
  bool has(std::size_t place, Key key) const { return place < entries_.size() && entries_[place].key == key; }
  std::size_t index(std::size_t place) const { return entries_[place].index; }
  // The first entry of the lists whose key an earlier entry has, or the lists' length.
  std::size_t first_repeated() const {
    std::size_t first = entries_.size();
    for (std::size_t i = 1; i < entries_.size(); ++i) {
      if (entries_[i].key == entries_[i - 1].key) first = std::min(first, entries_[i].index);
    }
    return first;
  }

 private:
  struct Entry {
    Key key;
    std::size_t index;  // in the lists
  };
  std::vector<Entry> entries_;
};

}  // namespace tessera::ops
