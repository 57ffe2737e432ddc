#include "io/package/coded_weights.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/threads/thread_pool.h"
#include "io/package/huffman.h"

namespace tessera::io {
namespace {

enum Form : std::uint32_t { kAsItIs = 0, kShared = 1 };

// Elements in a chunk, which one thread decodes at once. The codes of a chunk begin at a whole byte.
constexpr std::uint64_t kChunkElements = 65536;
// The symbol of a gap that continues: so many zeros without a weight.
constexpr std::uint64_t kLongGap = 255;

std::uint32_t pattern_at(const std::byte* data, std::uint64_t element, int element_bytes) {
  std::uint32_t pattern = 0;
  std::memcpy(&pattern, data + element * static_cast<std::uint64_t>(element_bytes),
              static_cast<std::size_t>(element_bytes));
  return pattern;
}

// --- encoding ---

class PieceEncoder {
 public:
  explicit PieceEncoder(const WeightPiece& piece) : piece_(piece) {}

  // The coded form, or nothing where there are too many different values.
  std::vector<std::byte> encode() {
    const auto width = static_cast<std::uint64_t>(piece_.element_bytes);
    elements_ = piece_.bytes.size() / width;
    if (!find_values()) return {};
    count();
    const HuffmanEncoder gaps(gap_counts_), symbols(symbol_counts_);
    ByteWriter out;
    out.u32(static_cast<std::uint32_t>(piece_.element_bytes));
    out.u32(static_cast<std::uint32_t>(codebook_.size()));
    for (const auto& [pattern, symbol] : codebook_)
      out.raw(std::as_bytes(std::span(&pattern, 1)).first(static_cast<std::size_t>(width)));
    gaps.write_table(out);
    symbols.write_table(out);
    std::vector<std::vector<std::byte>> streams;
    for (std::uint64_t begin = 0; begin < elements_; begin += kChunkElements) {
      BitWriter bits;
      std::uint32_t weights = 0;
      for_each_weight(begin, [&](std::uint64_t gap, std::size_t symbol) {
        for (; gap >= kLongGap; gap -= kLongGap) bits.put(gaps.code(kLongGap));
        bits.put(gaps.code(gap));
        bits.put(symbols.code(symbol));
        ++weights;
      });
      streams.push_back(bits.take());
      out.u32(weights);
      out.u32(static_cast<std::uint32_t>(streams.back().size()));
    }
    for (const auto& stream : streams) out.raw(stream);
    return out.take();
  }

 private:
  bool find_values() {
    for (std::uint64_t i = 0; i < elements_; ++i) {
      const std::uint32_t pattern = pattern_at(piece_.bytes.data(), i, piece_.element_bytes);
      if (pattern == 0) continue;
      codebook_.try_emplace(pattern, 0);
      if (codebook_.size() > kMostSymbols) return false;
    }
    std::size_t next = 0;
    for (auto& [pattern, symbol] : codebook_) symbol = next++;
    return true;
  }

  template <typename Use>
  void for_each_weight(std::uint64_t begin, const Use& use) const {
    std::uint64_t gap = 0;
    for (std::uint64_t i = begin; i < std::min(begin + kChunkElements, elements_); ++i) {
      const std::uint32_t pattern = pattern_at(piece_.bytes.data(), i, piece_.element_bytes);
      if (pattern == 0) {
        ++gap;
        continue;
      }
      use(gap, codebook_.at(pattern));
      gap = 0;
    }
  }

  void count() {
    for (std::uint64_t begin = 0; begin < elements_; begin += kChunkElements) {
      for_each_weight(begin, [&](std::uint64_t gap, std::size_t symbol) {
        gap_counts_[kLongGap] += gap / kLongGap;
        ++gap_counts_[gap % kLongGap];
        ++symbol_counts_[symbol];
      });
    }
  }

  const WeightPiece& piece_;
  std::uint64_t elements_ = 0;
  std::map<std::uint32_t, std::size_t> codebook_;  // symbols by pattern
  std::vector<std::uint64_t> gap_counts_ = std::vector<std::uint64_t>(kMostSymbols),
                             symbol_counts_ = std::vector<std::uint64_t>(kMostSymbols);
};

// --- decoding ---

struct SharedPiece {
  int element_bytes = 0;
  std::vector<std::uint32_t> codebook;
  HuffmanDecoder gaps, symbols;
};

// A chunk of a piece, which one thread fills.
struct Part {
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;
  std::span<const std::byte> from;  // codes
  const SharedPiece* shared = nullptr;
  std::uint64_t weights = 0;
};

template <typename Element>
void decode_part(const Part& part) {
  const SharedPiece& shared = *part.shared;
  auto* to = reinterpret_cast<Element*>(part.to);
  const std::uint64_t elements = part.bytes / sizeof(Element);
  Element values[kMostSymbols] = {};
  std::ranges::transform(shared.codebook, values, [](std::uint32_t pattern) { return static_cast<Element>(pattern); });
  BitReader bits(part.from);
  std::uint64_t at = 0;
  for (std::uint64_t left = part.weights; left > 0; --left) {
    bits.refill();
    std::uint64_t gap = shared.gaps.decode(bits);
    while (gap == kLongGap && at < elements) {
      at += kLongGap;
      bits.refill();
      gap = shared.gaps.decode(bits);
    }
    at += gap;
    require(at < elements, ErrorKind::invalid_model, "a coded weight is at place {} of {}", at, elements);
    to[at++] = values[shared.symbols.decode(bits)];
  }
  require(!bits.overrun(), ErrorKind::invalid_model, "the codes of weights end too early, after {} bytes",
          part.from.size());
}

void fill(const Part& part) {
  std::memset(part.to, 0, part.bytes);
  if (part.weights == 0) return;
  part.shared->element_bytes == 4 ? decode_part<std::uint32_t>(part) : decode_part<std::uint8_t>(part);
}

// Fills the raw section piece by piece, so that a file of many small pieces takes no more memory than one.
class SectionReader {
 public:
  SectionReader(std::span<const std::byte> stored, std::byte* raw, std::uint64_t raw_bytes)
      : in_(stored), raw_(raw), raw_bytes_(raw_bytes), pool_(base::ThreadPool::process()), lease_(pool_) {}

  void read() {
    for (std::uint32_t left = in_.count(20); left > 0; --left) read_piece();
    require(in_.done(), ErrorKind::invalid_model, "coded weights go on behind their end");
    add_zeros(raw_bytes_);
  }

 private:
  void add_zeros(std::uint64_t end) {
    std::memset(raw_ + at_, 0, end - at_);
    at_ = end;
  }

  void fill_all(const std::vector<Part>& parts) {
    pool_.parallel_for(static_cast<std::int64_t>(parts.size()), 1, 0, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) fill(parts[static_cast<std::size_t>(i)]);
    });
  }

  void read_piece() {
    const std::uint64_t offset = in_.u64(), bytes = in_.u64();
    require(offset >= at_ && offset <= raw_bytes_ && bytes <= raw_bytes_ - offset && offset % 64 == 0,
            ErrorKind::invalid_model,
            "coded weights of {} bytes at byte {} of {} lie outside, or over those before them", bytes, offset,
            raw_bytes_);
    add_zeros(offset);
    at_ = offset + bytes;
    const std::uint32_t form = in_.u32();
    require(form <= kShared, ErrorKind::invalid_model, "weights are coded in form {}, which is unknown", form);
    if (form == kShared) return read_shared(offset, bytes);
    const std::span<const std::byte> from = in_.bytes(bytes);
    if (bytes > 0) std::memcpy(raw_ + offset, from.data(), bytes);
  }

  void read_shared(std::uint64_t offset, std::uint64_t bytes) {
    const std::uint32_t width = in_.u32();
    require((width == 1 || width == 4) && bytes % width == 0, ErrorKind::invalid_model,
            "{} bytes of coded weights of {} bytes each, expected 1 or 4", bytes, width);
    std::vector<std::uint32_t> codebook(in_.count(width));
    require(codebook.size() <= kMostSymbols, ErrorKind::invalid_model,
            "a codebook of {} values, at most {} are possible", codebook.size(), kMostSymbols);
    for (std::uint32_t& value : codebook) value = pattern_at(in_.bytes(width).data(), 0, static_cast<int>(width));
    HuffmanDecoder gaps(in_, kMostSymbols), symbols(in_, codebook.size());
    const SharedPiece shared{static_cast<int>(width), std::move(codebook), gaps, symbols};
    const std::uint64_t elements = bytes / width;
    std::vector<Part> chunks;
    std::vector<std::uint32_t> lengths;
    for (std::uint64_t begin = 0; begin < elements; begin += kChunkElements) {
      const std::uint64_t size = std::min(kChunkElements, elements - begin);
      const std::uint32_t weights = in_.u32();
      lengths.push_back(in_.u32());
      require(weights <= size && (weights == 0 || !(shared.gaps.empty() || shared.symbols.empty())),
              ErrorKind::invalid_model, "{} coded weights in a chunk of {} elements", weights, size);
      chunks.push_back({raw_ + offset + begin * width, size * width, {}, &shared, weights});
    }
    for (std::size_t i = 0; i < chunks.size(); ++i) chunks[i].from = in_.bytes(lengths[i]);
    if (!chunks.empty()) fill_all(chunks);
  }

  ByteReader in_;
  std::byte* raw_;
  std::uint64_t raw_bytes_, at_ = 0;
  base::ThreadPool& pool_;
  base::ThreadPool::CoreLease lease_;
};

}  // namespace

std::vector<std::byte> encode_weights(const std::vector<WeightPiece>& pieces) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(pieces.size()));
  for (const WeightPiece& piece : pieces) {
    std::vector<std::byte> coded;
    if (piece.element_bytes > 0) coded = PieceEncoder(piece).encode();
    const bool smaller = !coded.empty() && coded.size() < piece.bytes.size();
    out.u64(piece.offset);
    out.u64(piece.bytes.size());
    out.u32(smaller ? kShared : kAsItIs);
    out.raw(smaller ? std::span<const std::byte>(coded) : piece.bytes);
  }
  return out.take();
}

Tensor decode_weights(std::span<const std::byte> stored, std::uint64_t raw_bytes) {
  require(raw_bytes <= std::uint64_t{1} << 62, ErrorKind::invalid_model, "coded weights of {} bytes", raw_bytes);
  Tensor raw(DType::u8, {static_cast<std::int64_t>(raw_bytes)});
  SectionReader(stored, static_cast<std::byte*>(raw.mutable_raw()), raw_bytes).read();
  return raw;
}

}  // namespace tessera::io
