// Copies to a device by way of pinned host memory, so that they are asynchronous wherever their source lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "backends/backend.h"

namespace tessera::backends {

// Returns a block of at least so many bytes of the device's pinned host memory, which goes back with its last owner, or
// null if there is none to be had at present. Empty: there is none at all.
using Staging = std::function<std::shared_ptr<std::byte>(std::int64_t bytes)>;

// The copies of one stream after another; one thread at a time may use it. Its destructor waits for the copies.
class StagedUploads {
 public:
  // The most bytes that one block stages; larger copies take several, one after the other where blocks are rare.
  static constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

  StagedUploads(const Device& device, Staging staging) : device_(device), staging_(std::move(staging)) {}
  ~StagedUploads();
  StagedUploads(const StagedUploads&) = delete;
  StagedUploads& operator=(const StagedUploads&) = delete;

  // Enqueues a copy. The source may change once the call has returned, unless it is pinned or there is no staging
  // memory: then it must stay as it is until the stream has passed the copy. Where all staging memory is in use, the
  // call waits for the earlier copies of this object, or for the whole copy if it has none. Throws Error if work failed
  // that it waits for.
  void copy(Stream& stream, void* to, const void* from, std::int64_t bytes);
  // Lets go of the blocks of copies that are complete.
  void release();
  // Lets go of all blocks; the caller knows that the streams have passed the copies.
  void release_all() { pieces_.clear(); }

 private:
  struct Piece {
    std::shared_ptr<std::byte> block;
    std::unique_ptr<Event> copied;
  };
  // A block for the next piece; null if none can be had even after waiting for earlier copies.
  std::shared_ptr<std::byte> block_for(std::int64_t bytes);

  const Device& device_;
  const Staging staging_;
  std::deque<Piece> pieces_;  // in the order of their copies
};

}  // namespace tessera::backends
