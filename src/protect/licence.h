// Licences: the symbols of an obfuscated model, encrypted for one machine.
//
//   bytes  holds
//   8      "TSRLICNC"
//   4      version, 1
//   32     salt, random
//   16     check value of the machine: BLAKE2b-128 of a purpose and the salt, keyed with the machine's identifier
//   24     nonce
//   n+16   the symbols as text (obfuscate/symbol_file.h), encrypted, and a tag: XChaCha20-Poly1305 by BLAKE2b-256 of
//          another purpose and the salt, keyed likewise; authenticated with them is all of the above
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/symbols.h"

namespace tessera::protect {

inline constexpr std::string_view kLicenceMagic = "TSRLICNC";

inline bool is_licence(std::span<const std::byte> bytes) {
  return bytes.size() >= kLicenceMagic.size() &&
         std::ranges::equal(bytes.first(kLicenceMagic.size()), std::as_bytes(std::span(kLicenceMagic)));
}

// 32 hexadecimal digits: a keyed hash of the machine's id, which /etc/machine-id holds. Throws Error: not_found, io,
// and unsupported for a file that holds none.
std::string machine_identifier_of(const std::filesystem::path& machine_id);

// Throws Error(invalid_argument) for a text that is no such identifier.
std::vector<std::byte> write_licence(const ops::SymbolTable& symbols, const std::string& machine);
// Throws Error: invalid_argument on another machine; invalid_model for a licence that was changed or cut off;
// unsupported for another version.
ops::SymbolTable read_licence(std::span<const std::byte> licence, const std::string& machine);

}  // namespace tessera::protect
