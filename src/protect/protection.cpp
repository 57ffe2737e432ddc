#include "protect/protection.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "io/package/byte_stream.h"
#include "io/package/section_kinds.h"
#include "protect/chunk_cipher.h"

namespace tessera::protect {
namespace {

// 1: XChaCha20-Poly1305 on chunks of kChunkBytes; keys by BLAKE2b.
constexpr std::uint32_t kForm = 1;
constexpr std::uint32_t kMostSlots = 256, kMostSlotBytes = 256, kMostSignatures = 16;
constexpr std::size_t kSectionBytes = 24 + sizeof(Digest), kSignatureBytes = 96;
constexpr std::size_t kNameBytes = 32;

template <typename T>
void put(io::ByteWriter& out, const T& array) {
  out.raw(std::as_bytes(std::span(array)));
}

template <typename T>
void get(io::ByteReader& in, T& array) {
  std::memcpy(array.data(), in.bytes(array.size()).data(), array.size());
}

void put_entry(io::ByteWriter& out, const io::Section& section) {
  const std::size_t begin = out.size();
  out.raw(std::as_bytes(std::span(section.name)));
  out.pad_to(begin + kNameBytes);
  out.u32(section.kind);
  out.u32(static_cast<std::uint32_t>(section.codec));
  for (const std::uint64_t number : {section.offset, section.stored_bytes, section.raw_bytes, section.checksum})
    out.u64(number);
}

void put_section(io::ByteWriter& out, const SealedSection& section) {
  out.u32(section.kind);
  out.u32(static_cast<std::uint32_t>(section.codec));
  out.u64(section.bytes);
  out.u64(section.raw_bytes);
  put(out, section.digest);
}

SealedSection get_section(io::ByteReader& in) {
  SealedSection section;
  section.kind = in.u32();
  section.codec = static_cast<io::Codec>(in.u32());
  section.bytes = in.u64();
  section.raw_bytes = in.u64();
  get(in, section.digest);
  return section;
}

void check_section(const SealedSection& sealed, const io::Section& stored) {
  const bool coded = sealed.codec != io::Codec::none;
  require(sealed.kind == stored.kind, ErrorKind::invalid_model,
          "section '{}' is of kind {}, the file's protection says {}", stored.name, stored.kind, sealed.kind);
  require(stored_bytes_of(sealed.bytes) == stored.stored_bytes, ErrorKind::invalid_model,
          "section '{}' is stored in {} bytes, which is not what {} encrypted bytes take", stored.name,
          stored.stored_bytes, sealed.bytes);
  require(sealed.codec == io::Codec::none || sealed.codec == io::Codec::weights, ErrorKind::unsupported,
          "section '{}' has codec {} under its encryption, which this Tessera cannot read", stored.name,
          static_cast<std::uint32_t>(sealed.codec));
  require(coded || sealed.bytes == sealed.raw_bytes, ErrorKind::invalid_model,
          "section '{}' has {} bytes, but says that it has {}", stored.name, sealed.bytes, sealed.raw_bytes);
}

Digest hash(const std::vector<std::byte>& message, Bytes key) {
  Digest digest;
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const std::uint8_t*>(message.data()),
                     message.size(), key.data(), key.size());
  return digest;
}

}  // namespace

std::vector<std::byte> write_protection(const Protection& protection) {
  io::ByteWriter out;
  out.u32(kForm);
  out.u32(kChunkBytes);
  put(out, protection.file_id);
  put(out, protection.key_id);
  out.u32(static_cast<std::uint32_t>(protection.slots.size()));
  for (const KeySlot& slot : protection.slots) {
    out.u32(slot.kind);
    out.u32(static_cast<std::uint32_t>(slot.content.size()));
    put(out, slot.content);
  }
  out.u32(static_cast<std::uint32_t>(protection.sections.size()));
  for (const SealedSection& section : protection.sections) put_section(out, section);
  out.u32(static_cast<std::uint32_t>(protection.signatures.size()));
  for (const Signature& signature : protection.signatures) {
    put(out, signature.publisher);
    put(out, signature.signature);
  }
  put(out, protection.mac);
  return out.take();
}

Protection read_protection(std::span<const std::byte> bytes) {
  io::ByteReader in(bytes);
  const std::uint32_t form = in.u32();
  require(form == kForm, ErrorKind::unsupported, "the file is protected in form {}; this Tessera reads form {}", form,
          kForm);
  const std::uint32_t chunk = in.u32();
  require(chunk == kChunkBytes, ErrorKind::unsupported, "the file is encrypted in chunks of {} bytes, expected {}",
          chunk, kChunkBytes);
  Protection protection;
  get(in, protection.file_id);
  get(in, protection.key_id);
  const std::uint32_t slots = in.count(8);
  require(slots >= 1 && slots <= kMostSlots, ErrorKind::invalid_model,
          "the file is protected for {} keys, expected 1 to {}", slots, kMostSlots);
  for (std::uint32_t left = slots; left > 0; --left) {
    KeySlot slot{in.u32(), {}};
    const std::uint32_t size = in.count(1);
    require(size <= kMostSlotBytes, ErrorKind::invalid_model, "a wrapped key of {} bytes, expected at most {}", size,
            kMostSlotBytes);
    slot.content.resize(size);
    get(in, slot.content);
    protection.slots.push_back(std::move(slot));
  }
  for (std::uint32_t left = in.count(kSectionBytes); left > 0; --left) protection.sections.push_back(get_section(in));
  const std::uint32_t signatures = in.count(kSignatureBytes);
  require(signatures <= kMostSignatures, ErrorKind::invalid_model, "the file has {} signatures, expected at most {}",
          signatures, kMostSignatures);
  for (std::uint32_t left = signatures; left > 0; --left) {
    Signature& signature = protection.signatures.emplace_back();
    get(in, signature.publisher);
    get(in, signature.signature);
  }
  get(in, protection.mac);
  require(in.done(), ErrorKind::invalid_model, "the protection of the file goes on behind its end");
  return protection;
}

Protection protection_of(const io::Container& file) {
  const io::Section* const last = file.find(io::kProtection);
  require(last != nullptr, ErrorKind::invalid_argument, "the file is not protected");
  require(last == &file.sections().back(), ErrorKind::invalid_model, "the file's protection is not its last section");
  file.verify(*last);
  Protection protection = read_protection(file.bytes_of(*last));
  require(protection.sections.size() + 1 == file.sections().size(), ErrorKind::invalid_model,
          "the file has {} encrypted sections, its protection says {}", file.sections().size() - 1,
          protection.sections.size());
  for (std::size_t i = 0; i < protection.sections.size(); ++i)
    check_section(protection.sections[i], file.sections()[i]);
  return protection;
}

Digest mac_of(const Protection& protection, std::span<const io::Section> table, std::uint64_t end,
              const Secret& file_key) {
  io::ByteWriter message;
  message.text("tessera table");
  message.u64(end);
  message.u32(static_cast<std::uint32_t>(table.size()));
  for (const io::Section& section : table) put_entry(message, section);
  const std::vector<std::byte> bytes = write_protection(protection);
  message.raw(std::span(bytes).first(bytes.size() - sizeof(Digest)));
  const Secret key = derived_key(file_key, "tessera mac", protection.file_id, 0);
  return hash(message.take(), key.bytes());
}

Digest signed_digest(const Protection& protection, std::span<const io::Section> table) {
  io::ByteWriter message;
  message.text("tessera signed contents");
  message.u32(kForm);
  put(message, protection.file_id);
  message.u32(static_cast<std::uint32_t>(table.size()));
  for (const io::Section& section : table) put_entry(message, section);
  for (const SealedSection& section : protection.sections) put_section(message, section);
  return hash(message.take(), {});
}

Digest digest_of(std::span<const std::byte> stored) {
  Digest digest;
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const std::uint8_t*>(stored.data()), stored.size(),
                     nullptr, 0);
  return digest;
}

}  // namespace tessera::protect
