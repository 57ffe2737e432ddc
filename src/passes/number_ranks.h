// Numbers by their place among each other, and the small integer constants of a graph, which count like sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::passes {

// A set of numbers that then tells the place of each among all of them in order.
class NumberRanks {
 public:
  NumberRanks() : slots_(1024) {}

  void add(std::int64_t number) {
    Slot& slot = slot_of(number);
    if (slot.taken) return;
    slot = {number, 0, true};
    if (++count_ * 2 > slots_.size()) grow();
  }
  void sort() {
    std::vector<std::int64_t> numbers;
    numbers.reserve(count_);
    for (const Slot& slot : slots_) {
      if (slot.taken) numbers.push_back(slot.number);
    }
    std::ranges::sort(numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) slot_of(numbers[i]).rank = i;
  }
  std::uint64_t of(std::int64_t number) { return slot_of(number).rank; }

 private:
  struct Slot {
    std::int64_t number = 0;
    std::uint64_t rank = 0;
    bool taken = false;
  };

  Slot& slot_of(std::int64_t number) {
    std::size_t place = (static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15U >> 32) & (slots_.size() - 1);
    while (slots_[place].taken && slots_[place].number != number) place = (place + 1) & (slots_.size() - 1);
    return slots_[place];
  }
  void grow() {
    std::vector<Slot> former(slots_.size() * 2);
    former.swap(slots_);
    for (const Slot& slot : former) {
      if (slot.taken) slot_of(slot.number) = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::size_t count_ = 0;
};

// Longer integer constants are data.
inline constexpr std::int64_t kMostNumbers = 64;

// Calls body(number) for each element of a small integer constant; returns whether the tensor is one.
template <typename Body>
bool for_each_number(const Tensor& tensor, Body body) {
  if (tensor.elements() > kMostNumbers || tensor.is_deferred() || !tensor.has_data()) return false;
  if (tensor.dtype() == DType::i64) std::ranges::for_each(tensor.values<std::int64_t>(), body);
  else if (tensor.dtype() == DType::i32) std::ranges::for_each(tensor.values<std::int32_t>(), body);
  else return false;
  return true;
}

}  // namespace tessera::passes
