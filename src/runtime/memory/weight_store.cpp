#include "runtime/memory/weight_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "base/assert.h"
#include "base/file_pages.h"
#include "runtime/memory/equal_packings.h"
#include "runtime/memory/packed_memory.h"

namespace tessera::runtime {
namespace {

using Key = std::pair<const void*, std::string>;

// A packing with its weights and its charge, which live as long as it does.
struct Holder {
  backends::PackedWeights packed;
  Tensor weights;
  MemoryCharge charge;
};

struct Entry {
  std::weak_ptr<const Holder> holder;
  bool in_the_making = false;
};

bool is_denormal(std::uint32_t bits) {
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7fffffffU);
  return magnitude > 0 && magnitude < 0x00800000;
}

bool holds_denormals(std::span<const float> numbers) {
  constexpr std::size_t kBlock = 64;  // which compilers make vectors of
  const float* number = numbers.data();
  std::size_t left = numbers.size();
  for (; left >= kBlock; left -= kBlock, number += kBlock) {
    std::array<std::uint32_t, kBlock> bits;
    std::memcpy(bits.data(), number, sizeof bits);
    std::int32_t found = 0;
    for (const std::uint32_t each : bits) found |= static_cast<std::int32_t>(is_denormal(each));
    if (found != 0) return true;
  }
  return std::any_of(number, number + left, [](float each) { return is_denormal(std::bit_cast<std::uint32_t>(each)); });
}

// Zeros for denormal weights: products with them vanish beside any other, and cost some processors a hundred times as
// much (ADR 0012).
Tensor without_denormals(const Tensor& weights) {
  if (weights.dtype() != DType::f32 || !holds_denormals(weights.values<float>())) return weights;
  Tensor result(DType::f32, weights.shape());
  std::ranges::transform(weights.values<float>(), result.mutable_data<float>(), [](float number) {
    return is_denormal(std::bit_cast<std::uint32_t>(number)) ? 0.0f : number;
  });
  return result;
}

void pack_contents(const Tensor& weights, std::byte* to, const backends::PackFunction& pack) {
  const Tensor contents = weights.contents();
  pack(without_denormals(contents), to);
  base::release_file_pages(contents.raw(), static_cast<std::size_t>(contents.bytes()));
}

}  // namespace

struct SharedWeightStore::State {
  std::shared_ptr<MemoryAccount> account;
  std::shared_ptr<const io::StoredPackings> stored;
  std::shared_ptr<io::WeightStream> stream;
  bool waits_for_stored = false;
  PackedMemory memory;
  mutable std::mutex mutex;
  std::condition_variable made;
  std::map<Key, Entry> entries;

  // With the mutex held.
  void forget_if_unused(const Key& key) {
    const auto found = entries.find(key);
    if (found != entries.end() && !found->second.in_the_making && found->second.holder.expired()) entries.erase(found);
  }

  // The packing, or nothing when the caller is to make it and then call finish().
  std::shared_ptr<const Holder> find_or_begin(const Key& key) {
    std::unique_lock lock(mutex);
    for (;;) {
      Entry& entry = entries[key];
      if (std::shared_ptr<const Holder> holder = entry.holder.lock()) return holder;
      if (!entry.in_the_making) {
        entry.in_the_making = true;
        return nullptr;
      }
      made.wait(lock);
    }
  }

  // `holder`: null when it could not be made.
  void finish(const Key& key, const std::shared_ptr<const Holder>& holder) {
    {
      std::lock_guard lock(mutex);
      Entry& entry = entries[key];
      entry.holder = holder;
      entry.in_the_making = false;
      forget_if_unused(key);
    }
    made.notify_all();
  }

  // The bytes as a file has them, or made.
  std::shared_ptr<const std::byte[]> obtain(const Key& key, const Tensor& weights, std::int64_t bytes,
                                            const backends::PackFunction& pack) {
    if (stored != nullptr) {
      const std::span<const std::byte> found = stored->find(key.first, key.second);
      if (found.data() != nullptr && found.size() == static_cast<std::size_t>(bytes)) {
        if (stream != nullptr && waits_for_stored) stream->need(found.data(), bytes);
        return {stored, found.data()};
      }
    }
    if (stream != nullptr && !weights.is_deferred()) stream->need(weights.raw(), weights.bytes());
    std::shared_ptr<std::byte[]> data = memory.allocate(bytes);
    pack_contents(weights, data.get(), pack);
    return EqualPackings::process().share(key.second, bytes, std::move(data));
  }
};

SharedWeightStore::SharedWeightStore(std::shared_ptr<MemoryAccount> account,
                                     std::shared_ptr<const io::StoredPackings> stored,
                                     std::shared_ptr<io::WeightStream> stream, bool waits_for_stored)
    : state_(std::make_shared<State>()) {
  state_->account = std::move(account);
  state_->stored = std::move(stored);
  state_->stream = std::move(stream);
  state_->waits_for_stored = waits_for_stored;
}

std::shared_ptr<const backends::PackedWeights> SharedWeightStore::find_or_pack(const Tensor& weights,
                                                                               std::string_view packing,
                                                                               std::int64_t bytes,
                                                                               const backends::PackFunction& pack) {
  // Views of one storage under different shapes may pack differently, so the shape is part of the key.
  const Key key(weights.storage(), std::string(packing) + to_string(weights.shape()));
  std::shared_ptr<const Holder> holder = state_->find_or_begin(key);
  if (holder != nullptr) {
    TESSERA_ASSERT(holder->packed.bytes == bytes, "packings of one name have one size");
    return {holder, &holder->packed};
  }
  try {
    MemoryCharge charge(state_->account, Purpose::packed_weights, bytes);
    std::shared_ptr<const std::byte[]> data = state_->obtain(key, weights, bytes, pack);
    holder = {new Holder{{std::move(data), bytes}, weights, std::move(charge)},
              [state = state_, key](const Holder* last) {
                delete last;
                std::lock_guard lock(state->mutex);
                state->forget_if_unused(key);
              }};
  } catch (...) {
    state_->finish(key, nullptr);
    throw;
  }
  state_->finish(key, holder);
  return {holder, &holder->packed};
}

std::vector<SharedWeightStore::Held> SharedWeightStore::packings() const {
  std::vector<Held> held;
  std::lock_guard lock(state_->mutex);
  for (const auto& [key, entry] : state_->entries) {
    if (const std::shared_ptr<const Holder> holder = entry.holder.lock())
      held.push_back({holder->weights, key.second, {holder, &holder->packed}});
  }
  return held;
}

std::size_t SharedWeightStore::size() const {
  std::lock_guard lock(state_->mutex);
  return state_->entries.size();
}

std::shared_ptr<const backends::PackedWeights> PackAtOnce::find_or_pack(const Tensor& weights, std::string_view,
                                                                        std::int64_t bytes,
                                                                        const backends::PackFunction& pack) {
  const std::shared_ptr<std::byte[]> data = allocate_packed(bytes);
  pack_contents(weights, data.get(), pack);
  return std::make_shared<const backends::PackedWeights>(data, bytes);
}

}  // namespace tessera::runtime
