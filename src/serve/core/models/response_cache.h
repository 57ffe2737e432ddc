// Answers kept by the content of their requests, so that requests that are equal are computed once.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "serve/protocol/inference.h"

namespace tessera::serve {

// The SHA-256 digest of what an answer depends on: names, types, shapes and elements of the inputs, in any order, and
// the requested outputs, in order. Not of the model, the id, the deadline or the priority.
std::string content_key(const InferenceRequest& request);

// Counters of the cache since it was made.
struct CacheCounters {
  std::uint64_t entries = 0, hits = 0, misses = 0, evictions = 0;
  std::int64_t bytes = 0, most_bytes = 0;
  std::uint64_t lookup_ns = 0, insertion_ns = 0;  // sums over all lookups and insertions
};

// One for all models of a server. Thread-safe.
class ResponseCache {
 public:
  // The least recently used answers go when all would have more than `most_bytes`.
  explicit ResponseCache(std::int64_t most_bytes) : most_bytes_(most_bytes) {}

  // A number under which one version of a model keeps its answers, never given twice.
  std::uint64_t add_owner();
  std::optional<std::vector<OutputTensor>> find(std::uint64_t owner, const std::string& key);
  // Keeps a copy of the outputs. An answer that is larger than the whole cache is not kept.
  void insert(std::uint64_t owner, const std::string& key, const std::vector<OutputTensor>& outputs);
  void remove_all_of(std::uint64_t owner);
  CacheCounters counters() const;

 private:
  struct Entry {
    std::uint64_t owner = 0;
    std::string name;  // of the owner and the request's content
    std::vector<OutputTensor> outputs;
    std::int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  static std::string name_of(std::uint64_t owner, const std::string& key);
  void remove(Entries::iterator entry);

  const std::int64_t most_bytes_;
  mutable std::mutex mutex_;
  // All below is guarded by the mutex.
  Entries entries_;  // the one used last stands first
  std::unordered_map<std::string, Entries::iterator> by_name_;
  std::uint64_t owners_ = 0;
  CacheCounters counters_;
};

}  // namespace tessera::serve
