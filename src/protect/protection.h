// The last section of a protected file, in the clear: who can open the file, how its sections are encrypted, who signed
// it, and a message authentication code over all of that and the table of sections (docs/protect.md has the layout).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "io/package/container.h"
#include "protect/secret.h"

namespace tessera::protect {

using FileId = std::array<std::uint8_t, 32>;
using KeyId = std::array<std::uint8_t, 16>;
using Digest = std::array<std::uint8_t, 32>;

// The file key, wrapped for one recipient.
struct KeySlot {
  enum Kind : std::uint32_t { symmetric = 1, recipient = 2, password = 3 };
  std::uint32_t kind = 0;
  std::vector<std::uint8_t> content;  // see slots.cpp
};

// A section as it is after decryption. Its name stands in the table.
struct SealedSection {
  std::uint32_t kind = 0;
  io::Codec codec = io::Codec::none;
  std::uint64_t bytes = 0, raw_bytes = 0;  // decrypted; and decoded by the codec after that
  Digest digest{};                         // BLAKE2b of the encrypted bytes
};

struct Signature {
  std::array<std::uint8_t, 32> publisher{};  // Ed25519 public key
  std::array<std::uint8_t, 64> signature{};
};

struct Protection {
  FileId file_id{};  // of the encrypted contents
  KeyId key_id{};    // of the file key
  std::vector<KeySlot> slots;
  std::vector<SealedSection> sections;  // in the order of the table
  std::vector<Signature> signatures;
  Digest mac{};
};

// With `mac` at the end, or zeros in place of it.
std::vector<std::byte> write_protection(const Protection& protection);
// Checks the form alone. Throws Error: invalid_model, unsupported (a newer form or another cipher).
Protection read_protection(std::span<const std::byte> bytes);
// The protection of a file: also checks that it describes the encrypted sections of the table.
Protection protection_of(const io::Container& file);

// The code that a holder of the file key finds for this protection of a file with such a table, whose last section
// begins at `end`.
Digest mac_of(const Protection& protection, std::span<const io::Section> table, std::uint64_t end,
              const Secret& file_key);
// The digest that publishers sign: of the encrypted contents, but not of the keys that the file key is wrapped for.
Digest signed_digest(const Protection& protection, std::span<const io::Section> table);
// The digest of encrypted bytes.
Digest digest_of(std::span<const std::byte> stored);

}  // namespace tessera::protect
