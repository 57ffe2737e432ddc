// The encryption of one section: XChaCha20-Poly1305 on chunks, so that any part of a section can be decrypted without
// the rest, and by several threads at once. Every chunk is bound to its place: its section, file and index are
// authenticated with it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/package/container.h"
#include "protect/protection.h"
#include "protect/secret.h"

namespace tessera::protect {

inline constexpr std::uint32_t kChunkBytes = 65536;  // but for a section's last chunk
inline constexpr std::uint32_t kTagBytes = 16;       // behind each chunk

// The encrypted length of a section.
constexpr std::uint64_t stored_bytes_of(std::uint64_t bytes) {
  return bytes + (bytes + kChunkBytes - 1) / kChunkBytes * kTagBytes;
}

// A key of 32 bytes for one purpose, of the file key, the file's identity and a number.
Secret derived_key(const Secret& file_key, std::string_view purpose, const FileId& file, std::uint32_t number);

// Thread-safe.
class ChunkCipher {
 public:
  ChunkCipher(const Secret& file_key, const FileId& file, std::string_view name, const SealedSection& section);

  std::uint64_t chunks() const { return chunks_; }
  // The size of a chunk before encryption, and the place of its encrypted bytes in the section.
  std::size_t bytes_of(std::uint64_t chunk) const;
  std::span<const std::byte> stored_chunk(std::span<const std::byte> stored, std::uint64_t chunk) const;

  // `stored` has kTagBytes more than `plain`.
  void encrypt(std::uint64_t chunk, std::span<const std::byte> plain, std::span<std::byte> stored) const;
  // Whether the chunk is what was encrypted at this place; if not, `plain` is zeros.
  bool decrypt(std::uint64_t chunk, std::span<const std::byte> stored, std::span<std::byte> plain) const;

 private:
  using Associated = std::array<std::uint8_t, 96>;
  Associated associated(std::uint64_t chunk) const;

  Secret key_;
  Associated associated_{};
  std::uint64_t bytes_ = 0, chunks_ = 0;
};

}  // namespace tessera::protect
