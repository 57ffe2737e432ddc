#include "train/data/sample_reader.h"

#include <algorithm>
#include <exception>
#include <new>

#include "base/error.h"
#include "base/log.h"

namespace tessera::train {
namespace {

constexpr std::size_t kMostReasons = 100, kMostWarnings = 10;

std::vector<std::byte*> pointers(std::vector<std::vector<std::byte>>& buffers) {
  std::vector<std::byte*> result;
  for (std::vector<std::byte>& buffer : buffers) result.push_back(buffer.data());
  return result;
}

}  // namespace

void SkippedSamples::add(std::int64_t index, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!samples_.insert(index).second) return;
  any_.store(true, std::memory_order_release);
  if (reasons_.size() < kMostReasons) reasons_.push_back(reason);
  if (samples_.size() <= kMostWarnings) warn("skipped a sample that cannot be read: {}", reason);
  if (samples_.size() == kMostWarnings) warn("further samples that cannot be read are only counted");
}

bool SkippedSamples::contains(std::int64_t index) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  return samples_.contains(index);
}

std::int64_t SkippedSamples::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(samples_.size());
}

std::vector<std::string> SkippedSamples::reasons() const {
  const std::lock_guard lock(mutex_);
  return reasons_;
}

SampleReader::SampleReader(const Dataset& data, const TransformList& transforms,
                           const std::vector<std::vector<Field>>& forms, SkippedSamples& skipped)
    : data_(data), transforms_(transforms), skipped_(skipped) {
  std::vector<std::int64_t> bytes;
  for (const std::vector<Field>& form : forms) {
    bytes.resize(std::max(bytes.size(), form.size()), 1);
    for (std::size_t i = 0; i < form.size(); ++i) bytes[i] = std::max(bytes[i], form[i].bytes());
  }
  if (transforms.empty()) return;
  for (auto& buffers : scratch_) {
    for (const std::int64_t size : bytes) buffers.emplace_back(static_cast<std::size_t>(size));
  }
}

void SampleReader::read_and_transform(std::int64_t index, base::Philox& numbers, std::span<std::byte* const> to) {
  if (transforms_.empty()) return data_.read(index, to);
  std::vector<std::byte*> from = pointers(scratch_[0]), next = pointers(scratch_[1]);
  data_.read(index, from);
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    const bool last = i + 1 == transforms_.size();
    const std::vector<const std::byte*> in(from.begin(), from.end());
    transforms_[i]->apply(index, in, last ? to : std::span<std::byte* const>(next), numbers);
    std::swap(from, next);
  }
}

bool SampleReader::read(std::int64_t index, std::uint64_t seed, std::uint64_t stream, std::span<std::byte* const> to) {
  if (skipped_.contains(index)) return false;
  try {
    base::Philox numbers(seed, stream);
    read_and_transform(index, numbers, to);
    return true;
  } catch (DataFault& fault) {
    fault.add_context(data_.describe(index));
    throw;
  } catch (const Error& error) {
    skipped_.add(index, fmt::format("{}: {}", data_.describe(index), error.what()));
  }
  return false;
}

}  // namespace tessera::train
