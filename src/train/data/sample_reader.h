// Reads one sample from the source and applies the transforms.
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

// The samples that could not be read, each recorded and logged once. Thread-safe.
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
  std::atomic<bool> any_{false};  // lets workers skip the lock while no sample was skipped
};

// Reads samples with scratch memory of its own. Each thread has one.
class SampleReader {
 public:
  // `transforms` must be bound; `forms` is the result of bind_all.
  SampleReader(const Dataset& data, const TransformList& transforms, const std::vector<std::vector<Field>>& forms,
               SkippedSamples& skipped);

  // Writes the sample to one buffer per field. If it cannot be read, adds it to the skipped ones and returns false.
  // Throws DataFault.
  bool read(std::int64_t index, std::uint64_t seed, std::uint64_t stream, std::span<std::byte* const> to);

 private:
  void read_and_transform(std::int64_t index, base::Philox& numbers, std::span<std::byte* const> to);

  const Dataset& data_;
  const TransformList& transforms_;
  SkippedSamples& skipped_;
  // Two sets of buffers, each large enough for the sample between any two transforms.
  std::vector<std::vector<std::byte>> scratch_[2];
};

}  // namespace tessera::train
