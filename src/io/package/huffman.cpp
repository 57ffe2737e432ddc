#include "io/package/huffman.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace tessera::io {
namespace {

// Lengths of the codes by Huffman's algorithm, without a limit.
std::vector<int> unlimited_lengths(std::span<const std::uint64_t> counts) {
  struct Node {
    std::uint64_t count;
    std::size_t number;  // decides between equal counts
  };
  const auto later = [](const Node& a, const Node& b) {
    return a.count != b.count ? a.count > b.count : a.number > b.number;
  };
  std::priority_queue<Node, std::vector<Node>, decltype(later)> open(later);
  std::vector<std::size_t> parents(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) open.push({counts[i], i});
  }
  while (open.size() > 1) {
    const Node a = open.top();
    open.pop();
    const Node b = open.top();
    open.pop();
    parents[a.number] = parents[b.number] = parents.size();
    open.push({a.count + b.count, parents.size()});
    parents.push_back(0);
  }
  std::vector<int> depths(parents.size());
  // The root is last, and every parent comes after its children.
  for (std::size_t i = parents.size(); i-- > 0;) {
    if (i + 1 < parents.size() && parents[i] != 0) depths[i] = depths[parents[i]] + 1;
  }
  depths.resize(counts.size());
  return depths;
}

// The codes of these lengths, in order of length and symbol; bits reversed.
std::vector<HuffmanCode> canonical(const std::vector<int>& lengths) {
  std::vector<HuffmanCode> codes(lengths.size());
  std::uint32_t next = 0;
  for (int length = 1; length <= kMostCodeBits; ++length) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] != length) continue;
      std::uint32_t reversed = 0;
      for (int bit = 0; bit < length; ++bit) reversed |= (next >> bit & 1) << (length - 1 - bit);
      codes[i] = {static_cast<std::uint16_t>(reversed), static_cast<std::uint8_t>(length)};
      ++next;
    }
    next <<= 1;
  }
  return codes;
}

}  // namespace

HuffmanEncoder::HuffmanEncoder(std::span<const std::uint64_t> counts) {
  std::vector<std::uint64_t> flat(counts.begin(), counts.end());
  while (!flat.empty() && flat.back() == 0) flat.pop_back();
  const auto used = std::ranges::count_if(flat, [](std::uint64_t count) { return count > 0; });
  codes_.resize(flat.size());
  if (used == 1) single_ = static_cast<int>(flat.size()) - 1;
  if (used < 2) return;
  std::vector<int> lengths = unlimited_lengths(flat);
  // Codes that are too long belong to rare symbols; treating these as more frequent costs almost nothing.
  while (*std::ranges::max_element(lengths) > kMostCodeBits) {
    for (std::uint64_t& count : flat) count = count > 0 ? count / 2 + 1 : 0;
    lengths = unlimited_lengths(flat);
  }
  codes_ = canonical(lengths);
}

void HuffmanEncoder::write_table(ByteWriter& out) const {
  out.u32(static_cast<std::uint32_t>(codes_.size()));
  std::vector<std::byte> packed((codes_.size() + 1) / 2);
  for (std::size_t i = 0; i < codes_.size(); ++i) {
    const int length = static_cast<int>(i) == single_ ? 1 : codes_[i].length;
    packed[i / 2] |= static_cast<std::byte>(length << (i % 2 * 4));
  }
  out.raw(packed);
}

HuffmanDecoder::HuffmanDecoder(ByteReader& in, std::size_t most_symbols) {
  const std::uint32_t count = in.u32();
  require(count <= most_symbols, ErrorKind::invalid_model, "a code has {} symbols where at most {} are possible", count,
          most_symbols);
  const std::span<const std::byte> packed = in.bytes((count + 1) / 2);
  std::vector<int> lengths(count);
  std::uint64_t taken = 0;  // of the codes of 12 bits
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    lengths[i] = static_cast<int>(packed[i / 2]) >> (i % 2 * 4) & 15;
    require(lengths[i] <= kMostCodeBits, ErrorKind::invalid_model, "a code of {} bits, at most {} are possible",
            lengths[i], kMostCodeBits);
    if (lengths[i] == 0) continue;
    ++used;
    taken += std::uint64_t{1} << (kMostCodeBits - lengths[i]);
  }
  empty_ = used == 0;
  if (empty_) return;
  if (used == 1) {
    const auto symbol = std::ranges::find_if(lengths, [](int length) { return length > 0; }) - lengths.begin();
    table_.fill({static_cast<std::uint8_t>(symbol), 0});
    return;
  }
  require(taken == table_.size(), ErrorKind::invalid_model,
          "the lengths of a code's words fill {} of {} places: they are no Huffman code", taken, table_.size());
  const std::vector<HuffmanCode> codes = canonical(lengths);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i].length == 0) continue;
    for (std::size_t at = codes[i].bits; at < table_.size(); at += std::size_t{1} << codes[i].length)
      table_[at] = {static_cast<std::uint8_t>(i), codes[i].length};
  }
}

}  // namespace tessera::io
