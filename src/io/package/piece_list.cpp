#include "io/package/piece_list.h"

#include <xxhash.h>

namespace tessera::io {
namespace {

constexpr std::size_t kPieceBytes = 32;

}  // namespace

void PieceListWriter::add(bool is_packing, std::uint64_t offset, std::span<const std::byte> bytes, PieceUse use) {
  if (bytes.empty() || !known_.emplace(is_packing, offset).second) return;
  ++count_;
  entries_.u32(is_packing ? 1 : 0);
  entries_.u32(static_cast<std::uint32_t>(use));
  entries_.u64(offset);
  entries_.u64(bytes.size());
  entries_.u64(XXH3_64bits(bytes.data(), bytes.size()));
}

std::vector<std::byte> PieceListWriter::take() {
  ByteWriter out;
  out.u32(count_);
  out.raw(entries_.take());
  return out.take();
}

std::vector<StreamedPiece> read_pieces(std::span<const std::byte> list, std::span<const std::byte> constants,
                                       std::span<const std::byte> packed) {
  ByteReader in(list);
  std::vector<StreamedPiece> pieces(in.count(kPieceBytes));
  for (StreamedPiece& piece : pieces) {
    const std::uint32_t is_packing = in.u32(), use = in.u32();
    const std::uint64_t offset = in.u64(), bytes = in.u64();
    require(is_packing <= 1, ErrorKind::invalid_model, "a piece of weights has the kind {}, expected 0 or 1",
            is_packing);
    const std::span<const std::byte> section = is_packing != 0 ? packed : constants;
    require(use <= static_cast<std::uint32_t>(PieceUse::parts), ErrorKind::invalid_model,
            "a piece of weights has the use {}, expected 0 to 2", use);
    require(bytes > 0 && offset <= section.size() && bytes <= section.size() - offset, ErrorKind::invalid_model,
            "a piece of weights has {} bytes from byte {} on of a section of {}", bytes, offset, section.size());
    piece.bytes = section.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
    piece.is_packing = is_packing != 0;
    piece.use = static_cast<PieceUse>(use);
    piece.checksum = in.u64();
  }
  require(in.done(), ErrorKind::invalid_model, "the list of pieces of weights goes on behind its end");
  return pieces;
}

}  // namespace tessera::io
