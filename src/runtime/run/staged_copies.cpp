#include "runtime/run/staged_copies.h"

#include <algorithm>
#include <cstring>

namespace tessera::runtime {

using backends::StagedUploads;

StagedCopies::StagedCopies(const backends::Device& device, backends::Staging staging)
    : device_(device), staging_(staging), uploads_(device, std::move(staging)) {}

StagedCopies::~StagedCopies() {
  uploads_.release_all();
}

void StagedCopies::to_host(backends::Stream& stream, std::size_t step, void* to, const void* from, std::int64_t bytes) {
  const bool is_pinned = device_.memory().is_pinned(to);
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t piece = std::min(StagedUploads::kPieceBytes, bytes - done);
    std::byte* const target = static_cast<std::byte*>(to) + done;
    const std::byte* const source = static_cast<const std::byte*>(from) + done;
    std::shared_ptr<std::byte> block = is_pinned || !staging_ ? nullptr : staging_(piece);
    if (block == nullptr) {  // the stream waits for such a copy itself, unless the memory is pinned
      stream.copy_to_host(target, source, bytes - done);
      return;
    }
    stream.copy_to_host(block.get(), source, piece);
    arriving_.push_back({&stream, step, target, std::move(block), piece});
    done += piece;
  }
}

void StagedCopies::deliver(const backends::Stream& stream, std::size_t step) {
  std::erase_if(arriving_, [&](const Arriving& copy) {
    if (copy.stream != &stream || copy.step > step) return false;
    std::memcpy(copy.to, copy.block.get(), static_cast<std::size_t>(copy.bytes));
    return true;
  });
}

void StagedCopies::deliver_all() {
  for (const Arriving& copy : arriving_) std::memcpy(copy.to, copy.block.get(), static_cast<std::size_t>(copy.bytes));
  arriving_.clear();
  uploads_.release_all();
}

}  // namespace tessera::runtime
