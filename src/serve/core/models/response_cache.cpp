#include "serve/core/models/response_cache.h"

#include <algorithm>

#include "serve/core/operations/digest.h"
#include "tessera/clock.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kEntryBytes = 512;  // of an entry beside its elements, about

void add_text(Sha256& digest, std::string_view text) {
  digest.add_number(static_cast<std::int64_t>(text.size()));
  digest.add(text);
}

void add_tensor(Sha256& digest, const Tensor& tensor) {
  digest.add_number(static_cast<std::int64_t>(tensor.dtype()));
  digest.add_number(tensor.rank());
  for (const std::int64_t size : tensor.shape()) digest.add_number(size);
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>()) add_text(digest, text);
  } else if (tensor.bytes() > 0) {
    digest.add({static_cast<const char*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes())});
  }
}

std::int64_t bytes_of(const std::vector<OutputTensor>& outputs) {
  std::int64_t bytes = kEntryBytes;
  for (const OutputTensor& output : outputs) {
    bytes += output.tensor.bytes() + static_cast<std::int64_t>(output.name.size());
    if (output.tensor.dtype() != DType::string) continue;
    for (const std::string& text : output.tensor.values<std::string>())
      bytes += static_cast<std::int64_t>(text.capacity());
  }
  return bytes;
}

}  // namespace

std::string content_key(const InferenceRequest& request) {
  std::vector<const InferenceInput*> inputs;
  for (const InferenceInput& input : request.inputs) inputs.push_back(&input);
  std::ranges::sort(inputs, {}, [](const InferenceInput* input) { return std::string_view(input->name); });
  Sha256 digest;
  digest.add_number(static_cast<std::int64_t>(inputs.size()));
  for (const InferenceInput* const input : inputs) {
    add_text(digest, input->name);
    add_tensor(digest, input->tensor);
  }
  for (const RequestedOutput& output : request.outputs) {
    add_text(digest, output.name);
    digest.add_number(output.classes);
  }
  return digest.finish();
}

std::uint64_t ResponseCache::add_owner() {
  const std::lock_guard lock(mutex_);
  return ++owners_;
}

std::string ResponseCache::name_of(std::uint64_t owner, const std::string& key) {
  return std::string(reinterpret_cast<const char*>(&owner), sizeof owner) + key;
}

std::optional<std::vector<OutputTensor>> ResponseCache::find(std::uint64_t owner, const std::string& key) {
  const std::int64_t start_ns = Clock::steady().now_ns();
  const std::string name = name_of(owner, key);
  std::optional<std::vector<OutputTensor>> outputs;
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    outputs = found->second->outputs;
  }
  ++(outputs ? counters_.hits : counters_.misses);
  counters_.lookup_ns += static_cast<std::uint64_t>(Clock::steady().now_ns() - start_ns);
  return outputs;
}

void ResponseCache::insert(std::uint64_t owner, const std::string& key, const std::vector<OutputTensor>& outputs) {
  const std::int64_t start_ns = Clock::steady().now_ns();
  Entry entry{owner, name_of(owner, key), {}, bytes_of(outputs)};
  if (entry.bytes > most_bytes_) return;
  // An output may be a view of a whole batch.
  for (const OutputTensor& output : outputs) entry.outputs.push_back({output.name, output.tensor.clone()});
  const std::lock_guard lock(mutex_);
  if (const auto found = by_name_.find(entry.name); found != by_name_.end()) remove(found->second);
  while (counters_.bytes + entry.bytes > most_bytes_) {
    remove(std::prev(entries_.end()));
    ++counters_.evictions;
  }
  counters_.bytes += entry.bytes;
  entries_.push_front(std::move(entry));
  by_name_.emplace(entries_.front().name, entries_.begin());
  counters_.insertion_ns += static_cast<std::uint64_t>(Clock::steady().now_ns() - start_ns);
}

// The caller holds the mutex.
void ResponseCache::remove(Entries::iterator entry) {
  counters_.bytes -= entry->bytes;
  by_name_.erase(entry->name);
  entries_.erase(entry);
}

void ResponseCache::remove_all_of(std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto next = std::next(it);
    if (it->owner == owner) remove(it);
    it = next;
  }
}

CacheCounters ResponseCache::counters() const {
  const std::lock_guard lock(mutex_);
  CacheCounters counters = counters_;
  counters.entries = entries_.size();
  counters.most_bytes = most_bytes_;
  return counters;
}

}  // namespace tessera::serve
