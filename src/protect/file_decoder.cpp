#include "protect/file_decoder.h"

#include <sodium.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/threads/thread_pool.h"
#include "protect/file_encoder.h"

namespace tessera::protect {
namespace {

constexpr std::uintptr_t kPage = 4096;

// Brings bytes of a mapped file into memory, so that a fault of the disk is an error and not a signal. Systems without
// that advice read them when they are decrypted.
bool populate(std::span<const std::byte> bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = address / kPage * kPage, end = (address + bytes.size() + kPage - 1) / kPage * kPage;
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0 || errno == EINVAL ||
         errno == ENOSYS || errno == ENOMEM;
}

}  // namespace

FileDecoder::FileDecoder(const io::Container& file, Protection protection, std::shared_ptr<const Secret> file_key)
    : owner_(file.owner()), protection_(std::move(protection)), file_key_(std::move(file_key)) {
  const std::span<const io::Section> table = std::span(file.sections()).first(protection_.sections.size());
  const Digest expected = mac_of(protection_, table, file.sections().back().offset, *file_key_);
  require(crypto_verify_32(expected.data(), protection_.mac.data()) == 0, ErrorKind::invalid_model,
          "the header, the table of sections or the list of keys was changed; get the file again from its publisher");
  bool is_locked = true;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const SealedSection& sealed = protection_.sections[i];
    io::Section section = table[i];
    section.codec = sealed.codec;
    section.stored_bytes = sealed.bytes;
    section.raw_bytes = sealed.raw_bytes;
    sections_.push_back(section);
    ChunkCipher cipher(*file_key_, protection_.file_id, section.name, sealed);
    auto states = std::make_unique<std::atomic<State>[]>(cipher.chunks());
    regions_.push_back({file.bytes_of(table[i]), std::move(cipher), SecretMemory(sealed.bytes), std::move(states)});
    is_locked = is_locked && (sealed.bytes == 0 || regions_.back().memory.is_locked());
  }
  if (!is_locked)
    inform("the decrypted model may be swapped to disk: this process may not lock so much memory (ulimit -l)");
}

FileDecoder::~FileDecoder() {
  for (Region& region : regions_) {
    for (std::uint64_t chunk = 0; chunk < region.cipher.chunks(); ++chunk) {
      if (region.states[chunk].load() == State::decrypted)
        region.memory.wipe(static_cast<std::size_t>(chunk * kChunkBytes), region.cipher.bytes_of(chunk));
    }
  }
}

std::span<const std::byte> FileDecoder::memory_of(const io::Section& section) const {
  const auto found = std::ranges::find(sections_, section.kind, &io::Section::kind);
  TESSERA_ASSERT(found != sections_.end(), "a section of another file");
  const SecretMemory& memory = regions_[static_cast<std::size_t>(found - sections_.begin())].memory;
  return {memory.data(), memory.size()};
}

void FileDecoder::decrypt(const Region& region, std::uint64_t chunk) const {
  std::atomic<State>& state = region.states[chunk];
  State seen = State::encrypted;
  if (state.compare_exchange_strong(seen, State::busy, std::memory_order_acquire)) {
    const std::span<const std::byte> stored = region.cipher.stored_chunk(region.stored, chunk);
    const std::span<std::byte> plain(region.memory.data() + chunk * kChunkBytes, region.cipher.bytes_of(chunk));
    const bool is_whole = region.cipher.decrypt(chunk, stored, plain);
    state.store(is_whole ? State::decrypted : State::changed, std::memory_order_release);
    state.notify_all();
  } else if (seen == State::busy) {
    state.wait(State::busy, std::memory_order_acquire);
  }
}

void FileDecoder::need(std::span<const std::byte> bytes, bool in_parallel) const {
  if (bytes.empty()) return;
  const auto region = std::ranges::find_if(regions_, [&](const Region& each) {
    return bytes.data() >= each.memory.data() && bytes.data() < each.memory.data() + each.memory.size();
  });
  TESSERA_ASSERT(region != regions_.end(), "bytes of another file");
  const auto offset = static_cast<std::uint64_t>(bytes.data() - region->memory.data());
  const std::uint64_t first = offset / kChunkBytes, last = (offset + bytes.size() - 1) / kChunkBytes;
  const auto is_decrypted = [&](std::uint64_t chunk) {
    return region->states[chunk].load(std::memory_order_acquire) == State::decrypted;
  };
  const auto are_decrypted = [&] {
    std::uint64_t chunk = first;
    while (chunk <= last && is_decrypted(chunk)) ++chunk;
    return chunk > last;
  };
  if (are_decrypted()) return;
  const std::span<const std::byte> from = region->cipher.stored_chunk(region->stored, first),
                                   to = region->cipher.stored_chunk(region->stored, last);
  require(populate({from.data(), to.data() + to.size()}), ErrorKind::io,
          "{} bytes of the protected file cannot be read: it has become shorter or its disk fails", bytes.size());
  if (in_parallel && last > first) {
    base::ThreadPool& pool = base::ThreadPool::process();
    const base::ThreadPool::CoreLease lease(pool);
    pool.parallel_for(static_cast<std::int64_t>(last - first + 1), 1, 0, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) decrypt(*region, first + static_cast<std::uint64_t>(i));
    });
  } else {
    for (std::uint64_t chunk = first; chunk <= last; ++chunk) decrypt(*region, chunk);
  }
  require(are_decrypted(), ErrorKind::invalid_model,
          "section '{}' of the protected file was changed: it does not authenticate under the file's key; get the file "
          "again from its publisher",
          sections_[static_cast<std::size_t>(region - regions_.begin())].name);
}

std::shared_ptr<const io::SectionEncoder> FileDecoder::encoder() const {
  return std::make_shared<FileEncoder>(file_key_, protection_.key_id, protection_.slots, nullptr);
}

}  // namespace tessera::protect
