// Maximum pooling of unsigned bytes and of bfloat16 numbers with the channels last: the taps of a window as rows of channels.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/channels_last.h"
#include "backends/cpu/kernels/kernels.h"
#include "base/half.h"

#ifndef TESSERA_BACKENDS_CPU_MAX_POOL_ROWS
#define TESSERA_BACKENDS_CPU_MAX_POOL_ROWS
namespace tessera::backends::cpu {

template <typename T>
using MaximumRow = void (*)(const T* const* rows, std::int64_t taps, T* y, std::int64_t count);

}  // namespace tessera::backends::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/max_pool_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// y = the largest of `taps` rows, element by element.
void maximum_row(const std::uint8_t* const* rows, std::int64_t taps, std::uint8_t* y, std::int64_t count) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto value = hn::LoadU(d, rows[0] + i);
    for (std::int64_t t = 1; t < taps; ++t) value = hn::Max(value, hn::LoadU(d, rows[t] + i));
    hn::StoreU(value, d, y + i);
    if (i < count - lanes) i = std::min(i, count - 2 * lanes);  // the last vector may compute some again
  }
  for (; i < count; ++i) {
    y[i] = rows[0][i];
    for (std::int64_t t = 1; t < taps; ++t) y[i] = std::max(y[i], rows[t][i]);
  }
}

// The same of bfloat16 numbers (bits), compared as floats. A NaN stays.
void maximum_bf16_row(const std::uint16_t* const* rows, std::int64_t taps, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) {
    const auto load = [&](std::int64_t t) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, rows[t] + i)))); };
    auto value = load(0);
    for (std::int64_t t = 1; t < taps; ++t) {
      const auto other = load(t);
      value = hn::IfThenElse(hn::Or(hn::Gt(other, value), hn::IsNaN(other)), other, value);
    }
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(du, value)))), d16, y + i);
    if (i < count - lanes) i = std::min(i, count - 2 * lanes);  // the last vector may compute some again
  }
#endif
  for (; i < count; ++i) {
    y[i] = rows[0][i];
    for (std::int64_t t = 1; t < taps; ++t) {
      const float value = base::to_float(bf16_t{y[i]}), other = base::to_float(bf16_t{rows[t][i]});
      if (other > value || std::isnan(other)) y[i] = rows[t][i];
    }
  }
}

}  // namespace

MaximumRow<std::uint8_t> maximum_row_function() { return maximum_row; }
MaximumRow<std::uint16_t> maximum_bf16_row_function() { return maximum_bf16_row; }

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(maximum_row_function);
HWY_EXPORT(maximum_bf16_row_function);

// `least`: what a window of padding alone gives.
template <typename T>
class MaxPoolOfRows final : public Kernel {
 public:
  MaxPoolOfRows(const ops::NodeView& view, MaximumRow<T> maximum, T least) : geometry_(channels_last_pool_geometry(view)), maximum_(maximum), least_(least) {}

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const T*>(context.input(0).raw());
    auto* y = static_cast<T*>(context.output(0).mutable_raw());
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t channels = geometry_.channels, outputs = geometry_.batch * geometry_.outputs();
    context.parallel_for(outputs, std::max<std::int64_t>(1, 65536 / (channels * geometry_.taps() + 1)), [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<const T*> taps;
      for (std::int64_t o = begin; o < end;) {
        const std::int64_t column = o % line.output, w0 = column * line.stride - line.pad_begin;
        taps.clear();
        for_each_line_under(geometry_, o / line.output, [&](std::int64_t offset, std::int64_t) {
          for (std::int64_t w = w0; w < w0 + line.extent(); w += line.dilation) {
            if (w >= 0 && w < line.input) taps.push_back(x + offset + w * channels);
          }
        });
        // Windows that lie inside of the line a pixel apart are one row.
        const std::int64_t inside = line.stride == 1 && w0 >= 0 ? line.input - line.extent() - w0 + 1 : 0, together = std::clamp<std::int64_t>(inside, 1, std::min(line.output - column, end - o));
        if (taps.empty()) std::fill_n(y + o * channels, together * channels, least_);
        else maximum_(taps.data(), static_cast<std::int64_t>(taps.size()), y + o * channels, together * channels);
        o += together;
      }
    });
  }

 private:
  ChannelsLastGeometry geometry_;
  MaximumRow<T> maximum_;
  T least_;
};

}  // namespace

std::string reject_max_pool_bytes(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::u8) return "data other than unsigned bytes";
  return reject_channels_last_rank(view);
}

KernelPointer make_max_pool_bytes(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<MaxPoolOfRows<std::uint8_t>>(view, HWY_DYNAMIC_DISPATCH(maximum_row_function)(), std::uint8_t{0});
}

std::string reject_max_pool_bf16(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::bf16) return "data other than bf16";
  return reject_channels_last_rank(view);
}

KernelPointer make_max_pool_bf16(const ops::NodeView& view, WeightStore&) {
  constexpr std::uint16_t kMinusInfinity = 0xFF80;
  return std::make_unique<MaxPoolOfRows<std::uint16_t>>(view, HWY_DYNAMIC_DISPATCH(maximum_bf16_row_function)(), kMinusInfinity);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
