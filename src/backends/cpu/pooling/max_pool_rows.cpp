// Channels-last max pooling of signed or unsigned bytes and of bfloat16, with the taps of a window as rows of elements.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/pooling/kernels.h"
#include "base/numbers/half.h"

#ifndef TESSERA_BACKENDS_CPU_MAX_POOL_ROWS
#define TESSERA_BACKENDS_CPU_MAX_POOL_ROWS
namespace tessera::backends::cpu {

template <typename T>
using MaximumRow = void (*)(const T* const* rows, std::int64_t taps, T* y, std::int64_t count);

}  // namespace tessera::backends::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pooling/max_pool_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// The keys that vectors compare instead of elements, and the conversion back: bytes unchanged; bfloat16 (bits) as
// integers in the order of the numbers, with NaN above all.
template <class D>
HWY_INLINE hn::Vec<D> key_of(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) return x;
  const auto magnitude = hn::And(x, hn::Set(d, 0x7FFF));
  x = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7F80)), magnitude, x);
  return hn::Xor(x, hn::And(hn::ShiftRight<15>(x), hn::Set(d, 0x7FFF)));
}
template <class D>
HWY_INLINE hn::Vec<D> element_of(D d, hn::Vec<D> key) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) return key;
  return hn::Xor(key, hn::And(hn::ShiftRight<15>(key), hn::Set(d, 0x7FFF)));
}

// Processes as many elements as fit whole vectors, from `first` on. Returns the end.
template <class D, typename T>
HWY_INLINE std::int64_t maximum_vectors(D d, const T* const* rows, std::int64_t taps, T* y, std::int64_t first,
                                        std::int64_t count) {
  using Number = hn::TFromD<D>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto load = [&](std::int64_t tap, std::int64_t at)
                        HWY_ATTR { return key_of(d, hn::LoadU(d, reinterpret_cast<const Number*>(rows[tap] + at))); };
  for (; first + lanes <= count; first += lanes) {
    auto key = load(0, first);
    for (std::int64_t tap = 1; tap < taps; ++tap) key = hn::Max(key, load(tap, first));
    hn::StoreU(element_of(d, key), d, reinterpret_cast<Number*>(y + first));
    if (first < count - lanes) first = std::min(first, count - 2 * lanes);  // the last vector may overlap
  }
  return first;
}
#endif

inline bool exceeds(std::uint8_t x, std::uint8_t y) {
  return x > y;
}
inline bool exceeds(std::int8_t x, std::int8_t y) {
  return x > y;
}
inline bool exceeds(std::uint16_t x, std::uint16_t y) {
  const float a = base::to_float(bf16_t{x}), b = base::to_float(bf16_t{y});
  return a > b || std::isnan(a);
}

// y = the maximum of `taps` rows, element by element; NaN if one is NaN.
template <typename T>
void maximum_row(const T* const* rows, std::int64_t taps, T* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  using Number = std::conditional_t<sizeof(T) == 1, T, std::int16_t>;
  i = maximum_vectors(hn::ScalableTag<Number>(), rows, taps, y, i, count);
  i = maximum_vectors(hn::FixedTag<Number, 16 / sizeof(Number)>(), rows, taps, y, i, count);
#endif
  for (; i < count; ++i) {
    y[i] = rows[0][i];
    for (std::int64_t tap = 1; tap < taps; ++tap) {
      if (exceeds(rows[tap][i], y[i])) y[i] = rows[tap][i];
    }
  }
}

}  // namespace

MaximumRow<std::uint8_t> maximum_row_function() {
  return maximum_row<std::uint8_t>;
}
MaximumRow<std::int8_t> maximum_signed_row_function() {
  return maximum_row<std::int8_t>;
}
MaximumRow<std::uint16_t> maximum_bf16_row_function() {
  return maximum_row<std::uint16_t>;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(maximum_row_function);
HWY_EXPORT(maximum_signed_row_function);
HWY_EXPORT(maximum_bf16_row_function);

// First takes the maxima over the outer axes, for all pixels of a line at once, then along the line. `least`: the
// result of a window that contains only padding.
template <typename T>
class MaxPoolOfRows final : public Kernel {
 public:
  MaxPoolOfRows(const ops::NodeView& view, MaximumRow<T> maximum, T least)
      : geometry_(channels_last_pool_geometry(view)), maximum_(maximum), least_(least) {}

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const T*>(context.input(0).raw());
    auto* y = static_cast<T*>(context.output(0).mutable_raw());
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t line_elements = line.output * geometry_.channels;
    if (line_elements == 0) return;
    context.parallel_for(geometry_.batch * depth.output * lines.output,
                         std::max<std::int64_t>(1, kChunkElements / line_elements),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) run_line(x, i, y + i * line_elements);
                         });
  }

 private:
  static constexpr std::int64_t kChunkElements = 8192;
  static constexpr std::int64_t kTogetherElements = 16384;  // of a line at a time, which stay in the first-level cache

  void run_line(const T* x, std::int64_t i, T* y) const {
    thread_local std::vector<const T*> under, taps;  // lines under the windows, and the addresses they are read from
    thread_local std::vector<T> largest;
    under.clear();
    for_each_line_under(geometry_, i, [&](std::int64_t offset, std::int64_t) { under.push_back(x + offset); });
    const ops::WindowAxis& line = geometry_.axes[2];
    const std::int64_t channels = geometry_.channels;
    if (under.empty()) {
      std::fill_n(y, line.output * channels, least_);
      return;
    }
    const std::int64_t together =
        std::max<std::int64_t>(1, (kTogetherElements / channels - line.extent()) / line.stride + 1);
    for (std::int64_t begin = 0; begin < line.output; begin += together) {
      const std::int64_t end = std::min(line.output, begin + together);
      const std::int64_t first = std::max<std::int64_t>(0, begin * line.stride - line.pad_begin),
                         last = std::min(line.input, (end - 1) * line.stride - line.pad_begin + line.extent());
      const T* from = under[0] + first * channels;
      if (under.size() > 1 && first < last) {
        taps = under;
        for (const T*& tap : taps) tap += first * channels;
        largest.resize(static_cast<std::size_t>((last - first) * channels));
        maximum_(taps.data(), static_cast<std::int64_t>(taps.size()), largest.data(), (last - first) * channels);
        from = largest.data();
      }
      run_along(from - first * channels, begin, end, y, taps);
    }
  }

  // Computes the outputs [begin, end) of a line whose pixel p is at x + p * channels.
  void run_along(const T* x, std::int64_t begin, std::int64_t end, T* y, std::vector<const T*>& taps) const {
    const ops::WindowAxis& line = geometry_.axes[2];
    const std::int64_t channels = geometry_.channels;
    for (std::int64_t o = begin; o < end;) {
      const std::int64_t start = o * line.stride - line.pad_begin;
      taps.clear();
      for (std::int64_t w = start; w < start + line.extent(); w += line.dilation) {
        if (w >= 0 && w < line.input) taps.push_back(x + w * channels);
      }
      // Windows inside of the line with stride 1 are one row.
      const std::int64_t inside = line.stride == 1 && start >= 0 ? line.input - line.extent() - start + 1 : 0,
                         together = std::clamp<std::int64_t>(inside, 1, end - o);
      if (taps.empty()) std::fill_n(y + o * channels, together * channels, least_);
      else maximum_(taps.data(), static_cast<std::int64_t>(taps.size()), y + o * channels, together * channels);
      o += together;
    }
  }

  ChannelsLastGeometry geometry_;
  MaximumRow<T> maximum_;
  T least_;
};

}  // namespace

std::string reject_max_pool_bytes(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::u8 && view.input(0).dtype != DType::i8) return "data other than bytes";
  return reject_channels_last_rank(view);
}

KernelPointer make_max_pool_bytes(const ops::NodeView& view, WeightStore&) {
  if (view.input(0).dtype == DType::i8) {
    return std::make_unique<MaxPoolOfRows<std::int8_t>>(view, HWY_DYNAMIC_DISPATCH(maximum_signed_row_function)(),
                                                        std::int8_t{-128});
  }
  return std::make_unique<MaxPoolOfRows<std::uint8_t>>(view, HWY_DYNAMIC_DISPATCH(maximum_row_function)(),
                                                       std::uint8_t{0});
}

std::string reject_max_pool_bf16(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::bf16) return "data other than bf16";
  return reject_channels_last_rank(view);
}

KernelPointer make_max_pool_bf16(const ops::NodeView& view, WeightStore&) {
  constexpr std::uint16_t kMinusInfinity = 0xFF80;
  return std::make_unique<MaxPoolOfRows<std::uint16_t>>(view, HWY_DYNAMIC_DISPATCH(maximum_bf16_row_function)(),
                                                        kMinusInfinity);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
