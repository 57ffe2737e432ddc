// An open-addressing hash table of 32-bit places in an array that its owner keeps, 4 bytes each where a node of a
// std::unordered_map takes 48.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::text {

class SlotTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  std::size_t size() const { return size_; }  // places

  // The place with this hash for which is_it(place) holds, or kNone.
  template <typename IsIt>
  std::uint32_t find(std::size_t hash, const IsIt& is_it) const {
    return slots_.empty() ? kNone : slots_[slot_of(hash, is_it)];
  }

  // Puts `place` in the stead of the one for which is_it holds, or adds it. hash_of(place) is the hash of one that was
  // put before.
  template <typename IsIt, typename HashOf>
  void put(std::size_t hash, std::uint32_t place, const IsIt& is_it, const HashOf& hash_of) {
    if (2 * (size_ + 1) > slots_.size()) grow(hash_of);
    std::uint32_t& slot = slots_[slot_of(hash, is_it)];
    if (slot == kNone) ++size_;
    slot = place;
  }

 private:
  // Spreads hashes that differ in few bits.
  std::size_t first_of(std::size_t hash) const {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(hash) * 0x9E3779B97F4A7C15u) >> 32) &
           (slots_.size() - 1);
  }
  template <typename IsIt>
  std::size_t slot_of(std::size_t hash, const IsIt& is_it) const {
    std::size_t at = first_of(hash);
    while (slots_[at] != kNone && !is_it(slots_[at])) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  template <typename HashOf>
  void grow(const HashOf& hash_of) {
    const std::vector<std::uint32_t> old = std::move(slots_);
    slots_.assign(old.empty() ? 16 : 2 * old.size(), kNone);
    for (const std::uint32_t place : old)
      if (place != kNone) slots_[slot_of(hash_of(place), [](std::uint32_t) { return false; })] = place;
  }

  std::vector<std::uint32_t> slots_;  // a power of two of them, at most half of which are taken
  std::size_t size_ = 0;
};

}  // namespace tessera::text
