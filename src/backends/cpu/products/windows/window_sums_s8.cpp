#include "backends/cpu/products/windows/window_sums_s8.h"

#include <algorithm>

#include "base/numbers/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/windows/window_sums_s8.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Computes the sum of `bytes` bytes of each pixel, less `zeros`; pixels are `stride` bytes apart.
void sum_pixels(const std::uint8_t* x, std::int64_t stride, std::int64_t bytes, std::int64_t pixels, std::int32_t zeros,
                std::int32_t* to) {
  for (std::int64_t p = 0; p < pixels; ++p, x += stride) {
    std::int32_t sum = -zeros;
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    if (bytes >= 8) {
      const hn::FixedTag<std::uint8_t, 16> d16;
      const hn::FixedTag<std::uint8_t, 8> d8;
      const hn::FixedTag<std::uint64_t, 2> d64;
      auto sums = hn::Zero(d64);
      for (; i + 16 <= bytes; i += 16) sums = hn::Add(sums, hn::SumsOf8(hn::LoadU(d16, x + i)));
      if (i + 8 <= bytes) {
        sums = hn::Add(sums, hn::SumsOf8(hn::ZeroExtendVector(d16, hn::LoadU(d8, x + i))));
        i += 8;
      }
      sum += static_cast<std::int32_t>(hn::GetLane(hn::SumOfLanes(d64, sums)));
    }
#endif
    for (; i < bytes; ++i) sum += x[i];
    to[p] = sum;
  }
}

}  // namespace

decltype(&sum_pixels) best_sum_pixels() {
  return sum_pixels;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(best_sum_pixels);

WindowSumsS8::WindowSumsS8(const ChannelsLastGeometry& geometry, std::int64_t groups)
    : geometry_(geometry),
      groups_(groups),
      pointwise_(is_pointwise(geometry)),
      sum_pixels_(HWY_DYNAMIC_DISPATCH(best_sum_pixels)()) {}

std::int64_t WindowSumsS8::elements() const {
  const std::int64_t of_group = base::checked_add(pixels(), pointwise_ ? 0 : rows());
  return base::checked_multiply(groups_, of_group);
}

const std::int32_t* WindowSumsS8::run(const KernelContext& context, const std::uint8_t* x, std::uint8_t zero,
                                      std::int32_t* memory) const {
  constexpr std::int64_t kBytesAChunk = 1 << 17, kTapsAChunk = 1 << 16;
  const std::int64_t count = pixels(), channels = geometry_.channels, bytes = channels / groups_;
  const auto zeros = static_cast<std::int32_t>(bytes * zero);
  context.parallel_for(count, std::max<std::int64_t>(1, kBytesAChunk / std::max<std::int64_t>(1, channels)),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t g = 0; g < groups_; ++g)
                           sum_pixels_(x + begin * channels + g * bytes, channels, bytes, end - begin, zeros,
                                       memory + g * count + begin);
                       });
  if (pointwise_) return memory;
  std::int32_t* sums = memory + groups_ * count;
  const std::int64_t width = geometry_.axes[2].output, lines = rows() / std::max<std::int64_t>(1, width);
  const std::int64_t taps_of_line = std::max<std::int64_t>(1, width * geometry_.taps());
  context.parallel_for(groups_ * lines, std::max<std::int64_t>(1, kTapsAChunk / taps_of_line),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i)
                           sum_line(memory + i / lines * count, i % lines * width, sums + i * width);
                       });
  return sums;
}

// Sums the windows of one line of results, which begins at `first_row`.
void WindowSumsS8::sum_line(const std::int32_t* pixel_sums, std::int64_t first_row, std::int32_t* to) const {
  const auto& [depth, lines, line] = geometry_.axes;
  const std::int64_t height = first_row / line.output % lines.output,
                     slice = first_row / line.output / lines.output % depth.output,
                     image = first_row / geometry_.outputs();
  std::fill_n(to, line.output, 0);
  for (std::int64_t kd = 0; kd < depth.kernel; ++kd) {
    const std::int64_t d = slice * depth.stride - depth.pad_begin + kd * depth.dilation;
    if (d < 0 || d >= depth.input) continue;
    for (std::int64_t kh = 0; kh < lines.kernel; ++kh) {
      const std::int64_t h = height * lines.stride - lines.pad_begin + kh * lines.dilation;
      if (h < 0 || h >= lines.input) continue;
      const std::int32_t* from = pixel_sums + ((image * depth.input + d) * lines.input + h) * line.input;
      for (std::int64_t kw = 0; kw < line.kernel; ++kw) {
        // The first and the last result whose tap is inside.
        const std::int64_t start = kw * line.dilation - line.pad_begin;
        const std::int64_t begin = start >= 0 ? 0 : base::ceil_divide(-start, line.stride);
        const std::int64_t end =
            start >= line.input ? 0 : std::min(line.output, (line.input - 1 - start) / line.stride + 1);
        for (std::int64_t i = begin; i < end; ++i) to[i] += from[start + i * line.stride];
      }
    }
  }
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
