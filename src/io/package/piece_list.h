// The section `pieces` of a package: the place and checksum of each constant and each packing, and the order in which
// the first run reads them (docs/package.md).
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "io/package/byte_stream.h"
#include "io/package/weight_stream.h"

namespace tessera::io {

class PieceListWriter {
 public:
  // Adds a constant or a packing at that offset of its section; does nothing if it was added before or is empty.
  void add(bool is_packing, std::uint64_t offset, std::span<const std::byte> bytes, PieceUse use);
  std::vector<std::byte> take();

 private:
  std::set<std::pair<bool, std::uint64_t>> known_;
  std::uint32_t count_ = 0;
  ByteWriter entries_;
};

// Reads the list. `constants` and `packed` are the sections that contain the pieces. Throws Error(invalid_model).
std::vector<StreamedPiece> read_pieces(std::span<const std::byte> list, std::span<const std::byte> constants,
                                       std::span<const std::byte> packed);

}  // namespace tessera::io
