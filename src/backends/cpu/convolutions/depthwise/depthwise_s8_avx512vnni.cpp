// Compiled with AVX-512 VNNI.
#include "backends/cpu/convolutions/depthwise/depthwise_s8.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kBlock = DepthwiseS8::kChannels * DepthwiseS8::kGroup;

// Interleaving works within 128-bit quarters of a vector: quarter q of vector v holds the channels 16 q + 4 v to 16 q +
// 4 v + 3. Packing the sums to bytes restores the order.
std::int64_t position(std::int64_t channel) {
  return channel % 16 / 4 * 16 + channel / 16 * 4 + channel % 4;
}

__mmask64 mask_of(std::int64_t channels) {
  return channels >= DepthwiseS8::kChannels ? ~0ull : (1ull << channels) - 1;
}

// Reads columns of four lines and interleaves them. `whole`: all channels of a block exist.
template <bool whole>
class Columns {
 public:
  Columns(const DepthwiseS8& line, std::int64_t group)
      : mask_(mask_of(line.channels)), input_(line.input), padding_(_mm512_set1_epi8(static_cast<char>(line.padding))) {
    _mm512_store_si512(padding_line_, padding_);
#pragma GCC unroll 4
    for (int l = 0; l < 4; ++l) {
      const std::uint8_t* given = line.lines[group * 4 + l];
      from_[l] = given == nullptr ? padding_line_ : given;
      step_[l] = given == nullptr ? 0 : line.pixel_stride;
    }
  }

  inline void read(std::int64_t pixel, __m512i (&x)[4]) const {
    if (pixel < 0 || pixel >= input_) {
      x[0] = x[1] = x[2] = x[3] = padding_;
      return;
    }
    __m512i line[4];
#pragma GCC unroll 4
    for (int l = 0; l < 4; ++l) {
      const std::uint8_t* from = from_[l] + pixel * step_[l];
      line[l] = whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(mask_, from);
    }
    const __m512i low01 = _mm512_unpacklo_epi8(line[0], line[1]), high01 = _mm512_unpackhi_epi8(line[0], line[1]);
    const __m512i low23 = _mm512_unpacklo_epi8(line[2], line[3]), high23 = _mm512_unpackhi_epi8(line[2], line[3]);
    x[0] = _mm512_unpacklo_epi16(low01, low23);
    x[1] = _mm512_unpackhi_epi16(low01, low23);
    x[2] = _mm512_unpacklo_epi16(high01, high23);
    x[3] = _mm512_unpackhi_epi16(high01, high23);
  }

 private:
  alignas(64) std::uint8_t padding_line_[64];
  __mmask64 mask_;
  std::int64_t input_;
  __m512i padding_;
  const std::uint8_t* from_[4];
  std::int64_t step_[4];
};

// Converts sums to bytes. Packing saturates, so values need only an upper bound that keeps them within int32; NaN
// becomes the least value; the lower bound is that of bytes.
template <bool whole>
class Store {
 public:
  explicit Store(const DepthwiseS8& line)
      : line_(line),
        mask_(mask_of(line.channels)),
        high_(_mm512_set1_ps(line.high)),
        zero_(_mm512_set1_epi16(static_cast<short>(line.zero))) {
    const float low = line.low < line.high ? line.low : line.high;
    low_ = _mm512_set1_epi8(static_cast<char>(_mm_cvtss_si32(_mm_set_ss(low)) + line.zero));
  }

  inline void operator()(const __m512i (&sum)[4], std::int64_t output) const {
    __m512i q[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[v]), _mm512_loadu_ps(line_.factor + v * 16),
                                           _mm512_loadu_ps(line_.offset + v * 16));
      q[v] = _mm512_cvtps_epi32(_mm512_min_ps(high_, value));  // returns operand 2 if either is NaN: NaN stays
    }
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero_),
                  high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero_);
    const __m512i bytes = _mm512_max_epu8(_mm512_packus_epi16(low, high), low_);
    std::uint8_t* to = line_.result + output * line_.pixel_stride;
    if constexpr (whole) _mm512_storeu_si512(to, bytes);
    else _mm512_mask_storeu_epi8(to, mask_, bytes);
  }

 private:
  DepthwiseS8 line_;  // a copy: stores of bytes may alias the original
  __mmask64 mask_;
  __m512 high_;
  __m512i zero_, low_;
};

inline void load(const void* from, __m512i (&to)[4]) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) to[v] = _mm512_loadu_si512(static_cast<const std::uint8_t*>(from) + v * 64);
}

inline void add_products(const __m512i (&start)[4], const __m512i (&x)[4], const __m512i (&w)[4], __m512i (&sum)[4]) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) sum[v] = _mm512_dpbusd_epi32(start[v], x[v], w[v]);
}

// Computes windows of three columns and at most four lines: each column is read once and added to all outputs that use
// it while it is in registers.
template <int stride, bool whole>
void sweep(const DepthwiseS8& line) {
  const Columns<whole> columns(line, 0);
  const Store<whole> store(line);
  __m512i start[4], weight[3][4], x[4], first[4], second[4];
  load(line.start, start);
#pragma GCC unroll 3
  for (int k = 0; k < 3; ++k) load(line.weights + k * kBlock, weight[k]);
  std::int64_t pixel = -line.pad_begin;
  const std::int64_t outputs = line.outputs;
  columns.read(pixel++, x);
  add_products(start, x, weight[0], first);
  if constexpr (stride == 1) {
    columns.read(pixel++, x);
    add_products(first, x, weight[1], first);
    add_products(start, x, weight[0], second);
#pragma GCC unroll 2
    for (std::int64_t o = 0; o < outputs; ++o) {
      columns.read(pixel++, x);
      add_products(first, x, weight[2], first);
      store(first, o);
      add_products(second, x, weight[1], first);
      add_products(start, x, weight[0], second);
    }
  } else {
    for (std::int64_t o = 0; o < outputs; ++o) {
      columns.read(pixel++, x);
      add_products(first, x, weight[1], first);
      columns.read(pixel++, x);
      add_products(first, x, weight[2], first);
      store(first, o);
      add_products(start, x, weight[0], first);
    }
  }
}

template <bool whole>
void interleave(const DepthwiseS8& line) {
  for (std::int64_t group = 0; group < line.line_groups; ++group) {
    const Columns<whole> columns(line, group);
    std::uint8_t* to = line.interleaved + group * kBlock;
    for (std::int64_t column = 0; column < line.columns; ++column, to += line.line_groups * kBlock) {
      __m512i x[4];
      columns.read(column - line.pad_begin, x);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) _mm512_storeu_si512(to + v * 64, x[v]);
    }
  }
}

// Computes neighbouring outputs together, so that each weight is loaded once for all of them.
template <int outputs, bool whole>
void convolve(const DepthwiseS8& line, const Store<whole>& store, std::int64_t o) {
  __m512i sum[outputs][4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m512i start = _mm512_loadu_si512(line.start + v * 16);
#pragma GCC unroll 4
    for (int i = 0; i < outputs; ++i) sum[i][v] = start;
  }
  const std::int8_t* w = line.weights;
  const std::int64_t pixel = line.line_groups * kBlock;
  for (std::int64_t k = 0; k < line.kernel; ++k) {
    const std::uint8_t* x = line.interleaved + (o * line.stride + k * line.dilation) * pixel;
    for (std::int64_t group = 0; group < line.line_groups; ++group, w += kBlock, x += kBlock) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const __m512i weight = _mm512_loadu_si512(w + v * 64);
#pragma GCC unroll 4
        for (int i = 0; i < outputs; ++i)
          sum[i][v] = _mm512_dpbusd_epi32(sum[i][v], _mm512_loadu_si512(x + i * line.stride * pixel + v * 64), weight);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < outputs; ++i) store(sum[i], o + i);
}

template <bool whole>
void run_block(const DepthwiseS8& line) {
  if (line.line_groups == 1 && line.kernel == 3 && line.dilation == 1 && line.stride <= 2)
    return line.stride == 1 ? sweep<1, whole>(line) : sweep<2, whole>(line);
  interleave<whole>(line);
  const Store<whole> store(line);
  std::int64_t o = 0;
  for (; o + 4 <= line.outputs; o += 4) convolve<4>(line, store, o);
  for (; o < line.outputs; ++o) convolve<1>(line, store, o);
}

void run(const DepthwiseS8& line) {
  line.channels == DepthwiseS8::kChannels ? run_block<true>(line) : run_block<false>(line);
}

}  // namespace

const DepthwiseS8Isa& depthwise_s8_avx512vnni() {
  static constexpr DepthwiseS8Isa kIsa{"vnni", run, position};
  return kIsa;
}

}  // namespace tessera::backends::cpu
#endif
