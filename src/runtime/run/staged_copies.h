// The copies of one run between its device and host memory, by way of pinned memory where the host memory is not
// pinned, so that they overlap other work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/staged_uploads.h"

namespace tessera::runtime {

// One thread at a time may use it. Whoever ends a run without deliver_all() has waited for its streams.
class StagedCopies {
 public:
  StagedCopies(const backends::Device& device, backends::Staging staging);
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  // Enqueues a copy to the device; see StagedUploads::copy for when the source may change.
  void to_device(backends::Stream& stream, void* to, const void* from, std::int64_t bytes) {
    uploads_.copy(stream, to, from, bytes);
  }
  // Enqueues a copy to the host for a step of the plan. The bytes lie at `to` once they are delivered.
  void to_host(backends::Stream& stream, std::size_t step, void* to, const void* from, std::int64_t bytes);
  // Delivers the copies that were enqueued on the stream for steps up to this one, which the stream has passed.
  void deliver(const backends::Stream& stream, std::size_t step);
  // Delivers all copies; all streams have passed them.
  void deliver_all();

 private:
  struct Arriving {
    const backends::Stream* stream;
    std::size_t step;
    void* to;
    std::shared_ptr<std::byte> block;
    std::int64_t bytes;
  };

  const backends::Device& device_;
  const backends::Staging staging_;
  backends::StagedUploads uploads_;
  std::vector<Arriving> arriving_;
};

}  // namespace tessera::runtime
