#include "protect/chunk_cipher.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "io/package/byte_stream.h"

namespace tessera::protect {
namespace {

constexpr std::size_t kIndexAt = 88;  // of the chunk, in what is authenticated with it
static_assert(kTagBytes == crypto_aead_xchacha20poly1305_ietf_ABYTES);

using Nonce = std::array<std::uint8_t, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES>;

// The key serves this section of this file alone, so that the index is enough to be unique.
Nonce nonce_of(std::uint64_t chunk) {
  Nonce nonce{};
  std::memcpy(nonce.data(), &chunk, sizeof(chunk));
  return nonce;
}

std::uint8_t* begin_of(std::span<std::byte> bytes) {
  return reinterpret_cast<std::uint8_t*>(bytes.data());
}
const std::uint8_t* begin_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

}  // namespace

Secret derived_key(const Secret& file_key, std::string_view purpose, const FileId& file, std::uint32_t number) {
  io::ByteWriter message;
  message.text(purpose);
  message.raw(std::as_bytes(std::span(file)));
  message.u32(number);
  const std::vector<std::byte> bytes = message.take();
  Secret key(crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
  crypto_generichash(key.data(), key.size(), begin_of(std::span(bytes)), bytes.size(), file_key.data(),
                     file_key.size());
  return key;
}

ChunkCipher::ChunkCipher(const Secret& file_key, const FileId& file, std::string_view name,
                         const SealedSection& section)
    : key_(derived_key(file_key, "tessera section", file, section.kind)),
      bytes_(section.bytes),
      chunks_((section.bytes + kChunkBytes - 1) / kChunkBytes) {
  io::ByteWriter out;
  out.raw(std::as_bytes(std::span(file)));
  out.raw(std::as_bytes(std::span(name)));
  out.pad_to(64);
  out.u32(section.kind);
  out.u32(static_cast<std::uint32_t>(section.codec));
  out.u64(section.bytes);
  out.u64(section.raw_bytes);
  out.pad_to(kIndexAt);
  const std::vector<std::byte> bytes = out.take();
  std::memcpy(associated_.data(), bytes.data(), bytes.size());
}

ChunkCipher::Associated ChunkCipher::associated(std::uint64_t chunk) const {
  Associated with_index = associated_;
  std::memcpy(with_index.data() + kIndexAt, &chunk, sizeof(chunk));
  return with_index;
}

std::size_t ChunkCipher::bytes_of(std::uint64_t chunk) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, bytes_ - chunk * kChunkBytes));
}

std::span<const std::byte> ChunkCipher::stored_chunk(std::span<const std::byte> stored, std::uint64_t chunk) const {
  return stored.subspan(static_cast<std::size_t>(chunk * (kChunkBytes + kTagBytes)), bytes_of(chunk) + kTagBytes);
}

void ChunkCipher::encrypt(std::uint64_t chunk, std::span<const std::byte> plain, std::span<std::byte> stored) const {
  const Associated with = associated(chunk);
  crypto_aead_xchacha20poly1305_ietf_encrypt(begin_of(stored), nullptr, begin_of(plain), plain.size(), with.data(),
                                             with.size(), nullptr, nonce_of(chunk).data(), key_.data());
}

bool ChunkCipher::decrypt(std::uint64_t chunk, std::span<const std::byte> stored, std::span<std::byte> plain) const {
  const Associated with = associated(chunk);
  return crypto_aead_xchacha20poly1305_ietf_decrypt(begin_of(plain), nullptr, nullptr, begin_of(stored), stored.size(),
                                                    with.data(), with.size(), nonce_of(chunk).data(), key_.data()) == 0;
}

}  // namespace tessera::protect
