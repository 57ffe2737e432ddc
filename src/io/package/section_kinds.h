// The sections of a package, by their numbers in the container, and the alignment of their data (docs/package.md).
#pragma once

#include <cstdint>

namespace tessera::io {

enum SectionKind : std::uint32_t {
  kInfo = 1,
  kGraph = 2,
  kPackings = 3,
  kConstants = 4,
  kPacked = 5,
  kMetadata = 6,
  kPieces = 7,
  kProtection = 8,  // how the encrypted sections of the file are decoded
  kLanguage = 9,    // a language model, in place of a graph
};

constexpr std::uint64_t kDataAlignment = 64;

}  // namespace tessera::io
