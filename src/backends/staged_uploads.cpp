#include "backends/staged_uploads.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace tessera::backends {
namespace {

void wait_quietly(const Event& event) {
  try {
    event.wait();
  } catch (const std::exception&) {
    // Nobody waits for these copies any more.
  }
}

}  // namespace

StagedUploads::~StagedUploads() {
  for (const Piece& piece : pieces_) wait_quietly(*piece.copied);
}

std::shared_ptr<std::byte> StagedUploads::block_for(std::int64_t bytes) {
  if (!staging_) return nullptr;
  std::shared_ptr<std::byte> block = staging_(bytes);
  while (block == nullptr && !pieces_.empty()) {
    pieces_.front().copied->wait();
    pieces_.pop_front();
    block = staging_(bytes);
  }
  return block;
}

void StagedUploads::copy(Stream& stream, void* to, const void* from, std::int64_t bytes) {
  if (device_.memory().is_pinned(from)) {
    stream.copy_to_device(to, from, bytes);
    return;
  }
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t piece = std::min(kPieceBytes, bytes - done);
    const std::byte* const source = static_cast<const std::byte*>(from) + done;
    std::byte* const target = static_cast<std::byte*>(to) + done;
    std::shared_ptr<std::byte> block = block_for(piece);
    if (block == nullptr) {
      stream.copy_to_device(target, source, bytes - done);
      return;
    }
    std::memcpy(block.get(), source, static_cast<std::size_t>(piece));
    stream.copy_to_device(target, block.get(), piece);
    Piece& added = pieces_.emplace_back();
    added.block = std::move(block);
    added.copied = device_.make_event();
    stream.record(*added.copied);
    done += piece;
  }
}

void StagedUploads::release() {
  if (pieces_.empty()) return;
  // Copies of one stream end in order, so the last one is asked about first.
  if (pieces_.back().copied->done()) pieces_.clear();
  while (!pieces_.empty() && pieces_.front().copied->done()) pieces_.pop_front();
}

}  // namespace tessera::backends
