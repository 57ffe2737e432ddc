// Compiled with AVX2 and FMA. Four interleaved lines are multiplied as 16-bit numbers, lines 0 and 2 separately from 1
// and 3: the 8-bit multiply-add of AVX2 saturates.
#include "backends/cpu/convolutions/depthwise/depthwise_s8.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kBlock = DepthwiseS8::kChannels * DepthwiseS8::kGroup;
constexpr std::int64_t kPart = 32;  // channels whose bytes fill a vector
constexpr int kVectors = 4;         // of a part's sums
constexpr int kOutputs = 4;         // neighbours that share the weights in registers

// Interleaving works within 128-bit halves of a vector: half h of vector v of a part holds the channels 16 h + 4 v to
// 16 h + 4 v + 3. Packing the sums to bytes restores the order.
std::int64_t position(std::int64_t channel) {
  const std::int64_t in_part = channel % kPart, in_half = in_part % 16;
  return channel / kPart * kPart + in_half / 4 * 8 + in_part / 16 * 4 + in_half % 4;
}

inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
inline void store(void* to, __m256i value) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}

inline __m256i load_some(const std::uint8_t* from, std::int64_t count) {
  alignas(32) std::uint8_t bytes[kPart] = {};
  __builtin_memcpy(bytes, from, static_cast<std::size_t>(count));
  return load(bytes);
}

// Interleaves `count` channels of a part, from the block's channel `first` on, for all columns and lines.
void interleave(const DepthwiseS8& line, std::int64_t first, std::int64_t count) {
  const __m256i padding = _mm256_set1_epi8(static_cast<char>(line.padding));
  std::uint8_t* to = line.interleaved + first * DepthwiseS8::kGroup;
  for (std::int64_t column = 0; column < line.columns; ++column) {
    const std::int64_t pixel = column - line.pad_begin;
    const bool inside = pixel >= 0 && pixel < line.input;
    for (std::int64_t group = 0; group < line.line_groups; ++group, to += kBlock) {
      __m256i x[4];
#pragma GCC unroll 4
      for (int l = 0; l < 4; ++l) {
        const std::uint8_t* from = line.lines[group * 4 + l];
        if (!inside || from == nullptr) x[l] = padding;
        else if (count == kPart) x[l] = load(from + pixel * line.pixel_stride + first);
        else x[l] = load_some(from + pixel * line.pixel_stride + first, count);
      }
      const __m256i low01 = _mm256_unpacklo_epi8(x[0], x[1]), high01 = _mm256_unpackhi_epi8(x[0], x[1]);
      const __m256i low23 = _mm256_unpacklo_epi8(x[2], x[3]), high23 = _mm256_unpackhi_epi8(x[2], x[3]);
      store(to, _mm256_unpacklo_epi16(low01, low23));
      store(to + 32, _mm256_unpackhi_epi16(low01, low23));
      store(to + 64, _mm256_unpacklo_epi16(high01, high23));
      store(to + 96, _mm256_unpackhi_epi16(high01, high23));
    }
  }
}

struct Words {
  __m256i even, odd;
};

inline Words words_of_data(const std::uint8_t* x) {
  const __m256i bytes = load(x);
  return {_mm256_and_si256(bytes, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(bytes, 8)};
}

inline Words words_of_weights(const std::int8_t* w) {
  const __m256i bytes = load(w);
  return {_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
}

inline void add_products(const Words& x, const Words& w, __m256i& sum) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x.even, w.even));
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x.odd, w.odd));
}

// Computes windows of three columns of at most four lines: each column is widened once for all outputs that use it.
template <int outputs, int stride>
inline void add_three_columns(const DepthwiseS8& line, std::int64_t o, std::int64_t at, __m256i (&sum)[outputs]) {
  Words weight[3];
#pragma GCC unroll 3
  for (int k = 0; k < 3; ++k) weight[k] = words_of_weights(line.weights + k * kBlock + at);
  const std::uint8_t* x = line.interleaved + o * stride * kBlock + at;
#pragma GCC unroll 16
  for (int column = 0; column < (outputs - 1) * stride + 3; ++column) {
    const Words words = words_of_data(x + column * kBlock);
#pragma GCC unroll 4
    for (int i = 0; i < outputs; ++i) {
      if (column >= i * stride && column - i * stride < 3) add_products(words, weight[column - i * stride], sum[i]);
    }
  }
}

template <int outputs>
inline void add_columns(const DepthwiseS8& line, std::int64_t o, std::int64_t at, __m256i (&sum)[outputs]) {
  const std::int64_t pixel = line.line_groups * kBlock;
  const std::int8_t* w = line.weights + at;
  for (std::int64_t k = 0; k < line.kernel; ++k) {
    const std::uint8_t* x = line.interleaved + (o * line.stride + k * line.dilation) * pixel + at;
    for (std::int64_t group = 0; group < line.line_groups; ++group, w += kBlock, x += kBlock) {
      const Words weight = words_of_weights(w);
#pragma GCC unroll 4
      for (int i = 0; i < outputs; ++i) add_products(words_of_data(x + i * line.stride * pixel), weight, sum[i]);
    }
  }
}

// Converts sums to bytes. Packing saturates, so values need only an upper bound that keeps them within int32; NaN
// becomes the least value; the lower bound is that of bytes.
class Store {
 public:
  Store(const DepthwiseS8& line, std::int64_t first, std::int64_t count)
      : result_(line.result + first),
        pixel_stride_(line.pixel_stride),
        count_(count),
        zero_(_mm256_set1_epi16(static_cast<short>(line.zero))) {
    const float low = line.low < line.high ? line.low : line.high;
    low_ = _mm256_set1_epi8(static_cast<char>(_mm_cvtss_si32(_mm_set_ss(low)) + line.zero));
  }

  inline void operator()(const __m256i (&q)[kVectors], std::int64_t output) const {
    const __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(q[0], q[1]), zero_),
                  high = _mm256_adds_epi16(_mm256_packs_epi32(q[2], q[3]), zero_);
    const __m256i bytes = _mm256_max_epu8(_mm256_packus_epi16(low, high), low_);
    std::uint8_t* to = result_ + output * pixel_stride_;
    if (count_ == kPart) return store(to, bytes);
    alignas(32) std::uint8_t some[kPart];
    store(some, bytes);
    __builtin_memcpy(to, some, static_cast<std::size_t>(count_));
  }

 private:
  std::uint8_t* result_;
  std::int64_t pixel_stride_, count_;
  __m256i zero_, low_;
};

// Computes neighbouring outputs of a part. `stride`: of windows of three columns, or 0 for any other windows.
template <int outputs, int stride>
inline void convolve(const DepthwiseS8& line, const Store& to, std::int64_t first, std::int64_t o) {
  __m256i q[outputs][kVectors];
  const __m256 bound = _mm256_set1_ps(line.high);
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t channel = first + v * 8;
    __m256i sum[outputs];
#pragma GCC unroll 4
    for (int i = 0; i < outputs; ++i) sum[i] = load(line.start + channel);
    if constexpr (stride == 0) add_columns(line, o, channel * DepthwiseS8::kGroup, sum);
    else add_three_columns<outputs, stride>(line, o, channel * DepthwiseS8::kGroup, sum);
    const __m256 factor = _mm256_loadu_ps(line.factor + channel), offset = _mm256_loadu_ps(line.offset + channel);
#pragma GCC unroll 4
    for (int i = 0; i < outputs; ++i)
      q[i][v] = _mm256_cvtps_epi32(
          _mm256_min_ps(bound, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i]), factor, offset)));  // keeps a NaN
  }
#pragma GCC unroll 4
  for (int i = 0; i < outputs; ++i) to(q[i], o + i);
}

template <int stride>
void convolve_line(const DepthwiseS8& given, std::int64_t first, std::int64_t count) {
  const DepthwiseS8 line = given;  // a copy: stores of bytes may alias the original
  const Store to(line, first, count);
  std::int64_t o = 0;
  for (; o + kOutputs <= line.outputs; o += kOutputs) convolve<kOutputs, stride>(line, to, first, o);
  for (; o < line.outputs; ++o) convolve<1, stride>(line, to, first, o);
}

void run(const DepthwiseS8& line) {
  const bool three = line.line_groups == 1 && line.kernel == 3 && line.dilation == 1;
  for (std::int64_t first = 0; first < line.channels; first += kPart) {
    const std::int64_t left_over = line.channels - first, count = left_over < kPart ? left_over : kPart;
    interleave(line, first, count);
    if (three && line.stride == 1) convolve_line<1>(line, first, count);
    else if (three && line.stride == 2) convolve_line<2>(line, first, count);
    else convolve_line<0>(line, first, count);
  }
}

static_assert(DepthwiseS8::kChannels % kPart == 0);

}  // namespace

const DepthwiseS8Isa& depthwise_s8_avx2() {
  static constexpr DepthwiseS8Isa kIsa{"avx2", run, position};
  return kIsa;
}

}  // namespace tessera::backends::cpu
#endif
