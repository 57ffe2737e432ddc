// One sample on its way from the source through the transforms.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "train/data/dataset.h"
#include "train/data/transform.h"

namespace tessera::train {

// Samples that could not be read, each noted and logged once. Thread-safe.
class SkippedSamples {
 public:
  void add(std::int64_t index, const std::string& reason);
  bool contains(std::int64_t index) const;
  std::int64_t count() const;
  std::vector<std::string> reasons() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> samples_;
  std::vector<std::string> reasons_;
  std::atomic<bool> any_{false};  // so that workers meet at the lock only where samples are skipped
};

// Reads samples with scratch memory of its own; each thread has one.
class SampleReader {
 public:
  // `transforms` are bound, and `forms` is what bind_all returned.
  SampleReader(const Dataset& data, const TransformList& transforms, const std::vector<std::vector<Field>>& forms,
               SkippedSamples& skipped);

  // Writes the sample to a buffer a field. When it cannot be read, adds it to the skipped ones and returns false.
  // Throws DataFault.
  bool read(std::int64_t index, std::uint64_t seed, std::uint64_t stream, std::span<std::byte* const> to);

 private:
  void read_and_transform(std::int64_t index, base::Philox& numbers, std::span<std::byte* const> to);

  const Dataset& data_;
  const TransformList& transforms_;
  SkippedSamples& skipped_;
  // Two sets of buffers, large enough for a sample in any form that it has on the way.
  std::vector<std::vector<std::byte>> scratch_[2];
};

}  // namespace tessera::train
