// Canonical Huffman codes of symbols 0 to 255 (Huffman 1952; canonical as in RFC 1951, 3.2.2), at most 12 bits long, so
// that one look-up in a table of 4096 decodes a symbol. The first bit of a code is the lowest of its byte. Where only
// one symbol occurs, its code has no bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "io/package/byte_stream.h"

namespace tessera::io {

inline constexpr int kMostCodeBits = 12;
inline constexpr std::size_t kMostSymbols = 256;

struct HuffmanCode {
  std::uint16_t bits = 0;
  std::uint8_t length = 0;
};

class HuffmanEncoder {
 public:
  // `counts`: how often each symbol occurs.
  explicit HuffmanEncoder(std::span<const std::uint64_t> counts);

  const HuffmanCode& code(std::size_t symbol) const { return codes_[symbol]; }
  // Writes the number of codes and then their lengths, half a byte each.
  void write_table(ByteWriter& out) const;

 private:
  std::vector<HuffmanCode> codes_;
  int single_ = -1;  // the only symbol that occurs
};

// Writes a sequence of bits.
class BitWriter {
 public:
  void put(HuffmanCode code) {
    pending_ |= static_cast<std::uint64_t>(code.bits) << count_;
    count_ += code.length;
    for (; count_ >= 8; count_ -= 8, pending_ >>= 8) bytes_.push_back(static_cast<std::byte>(pending_ & 0xFF));
  }
  // The bytes written so far; the last one is padded with zeros.
  std::vector<std::byte> take() {
    if (count_ > 0) bytes_.push_back(static_cast<std::byte>(pending_ & 0xFF));
    pending_ = 0;
    count_ = 0;
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t pending_ = 0;
  int count_ = 0;
};

// Reads a sequence of bits; bits beyond the end are zeros, and `overrun` reports them.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Makes at least 56 bits available.
  void refill() {
    if (end_ - next_ >= 8) {
      std::uint64_t word;
      std::memcpy(&word, next_, sizeof(word));
      bits_ |= word << count_;
      next_ += (63 - count_) >> 3;
      count_ |= 56;
      return;
    }
    for (; count_ <= 56; count_ += 8) {
      if (next_ < end_) bits_ |= static_cast<std::uint64_t>(*next_++) << count_;
      else added_ += 8;
    }
  }
  std::uint64_t peek() const { return bits_; }
  void skip(int bits) {
    bits_ >>= bits;
    count_ -= bits;
  }
  // Whether more bits were read than there are.
  bool overrun() const { return count_ < added_; }

 private:
  const std::byte *next_, *end_;
  std::uint64_t bits_ = 0;
  int count_ = 0, added_ = 0;
};

class HuffmanDecoder {
 public:
  // Reads a table of write_table. Throws Error(invalid_model) for lengths that are not a complete code, and for more
  // than `most_symbols` symbols.
  HuffmanDecoder(ByteReader& in, std::size_t most_symbols);

  // Must be called after `bits` was refilled, with at most 44 bits read since.
  std::uint8_t decode(BitReader& bits) const {
    const Entry entry = table_[bits.peek() & ((1u << kMostCodeBits) - 1)];
    bits.skip(entry.length);
    return entry.symbol;
  }
  // Whether the code has no symbols; then it cannot decode.
  bool empty() const { return empty_; }

 private:
  struct Entry {
    std::uint8_t symbol = 0, length = 0;
  };
  std::array<Entry, std::size_t{1} << kMostCodeBits> table_;
  bool empty_ = false;
};

}  // namespace tessera::io
