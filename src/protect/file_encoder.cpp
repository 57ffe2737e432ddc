#include "protect/file_encoder.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "protect/chunk_cipher.h"

namespace tessera::protect {
namespace {

// The part of a section that has not filled a chunk, in memory that is wiped.
class ChunkBuffer {
 public:
  ChunkBuffer() : memory_(kChunkBytes) {}
  ~ChunkBuffer() { memory_.wipe(0, kChunkBytes); }
  ChunkBuffer(const ChunkBuffer&) = delete;
  ChunkBuffer& operator=(const ChunkBuffer&) = delete;

  // Takes from the front of `bytes` what fits.
  void fill(std::span<const std::byte>& bytes) {
    const std::size_t taken = std::min(bytes.size(), kChunkBytes - size_);
    if (taken > 0) std::memcpy(memory_.data() + size_, bytes.data(), taken);
    size_ += taken;
    bytes = bytes.subspan(taken);
  }
  bool is_full() const { return size_ == kChunkBytes; }
  std::span<const std::byte> take() { return {memory_.data(), std::exchange(size_, 0)}; }
  std::size_t size() const { return size_; }

 private:
  SecretMemory memory_;
  std::size_t size_ = 0;
};

class Encoding : public io::FileEncoding {
 public:
  Encoding(std::shared_ptr<const Secret> file_key, Protection protection, std::shared_ptr<const Key> publisher)
      : file_key_(std::move(file_key)), protection_(std::move(protection)), publisher_(std::move(publisher)) {
    randombytes_buf(protection_.file_id.data(), protection_.file_id.size());
  }

  std::uint64_t stored_bytes(std::uint64_t bytes) const override { return stored_bytes_of(bytes); }

  void encode(const io::Section& entry, const io::SectionContent& content, const io::ByteSink& write) override {
    SealedSection& section = protection_.sections.emplace_back(
        SealedSection{content.kind(), content.codec(), content.bytes(), content.raw_bytes(), {}});
    const ChunkCipher cipher(*file_key_, protection_.file_id, entry.name, section);
    crypto_generichash_state digest;
    crypto_generichash_init(&digest, nullptr, 0, section.digest.size());
    ChunkBuffer buffer;
    std::vector<std::byte> stored;
    std::uint64_t chunk = 0;
    const auto flush = [&] {
      const std::span<const std::byte> plain = buffer.take();
      stored.resize(plain.size() + kTagBytes);
      cipher.encrypt(chunk++, plain, stored);
      crypto_generichash_update(&digest, reinterpret_cast<const std::uint8_t*>(stored.data()), stored.size());
      write(stored);
    };
    content.for_each_run([&](std::span<const std::byte> run) {
      while (!run.empty()) {
        buffer.fill(run);
        if (buffer.is_full()) flush();
      }
    });
    if (buffer.size() > 0) flush();
    crypto_generichash_final(&digest, section.digest.data(), section.digest.size());
  }

  std::vector<std::byte> close(const std::vector<io::Section>& table, std::uint64_t end) override {
    if (publisher_ != nullptr) sign(table);
    protection_.mac = mac_of(protection_, table, end, *file_key_);
    return write_protection(protection_);
  }

 private:
  void sign(const std::vector<io::Section>& table) {
    const Digest digest = signed_digest(protection_, table);
    Signature& signature = protection_.signatures.emplace_back();
    crypto_sign_ed25519_sk_to_pk(signature.publisher.data(), publisher_->bytes.data());
    crypto_sign_detached(signature.signature.data(), nullptr, digest.data(), digest.size(), publisher_->bytes.data());
  }

  std::shared_ptr<const Secret> file_key_;
  Protection protection_;
  std::shared_ptr<const Key> publisher_;
};

}  // namespace

FileEncoder::FileEncoder(std::shared_ptr<const Secret> file_key, const KeyId& id, std::vector<KeySlot> slots,
                         std::shared_ptr<const Key> publisher)
    : file_key_(std::move(file_key)), publisher_(std::move(publisher)) {
  common_.key_id = id;
  common_.slots = std::move(slots);
}

std::unique_ptr<io::FileEncoding> FileEncoder::begin() const {
  return std::make_unique<Encoding>(file_key_, common_, publisher_);
}

}  // namespace tessera::protect
