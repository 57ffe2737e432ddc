#include "backends/cpu/convolutions/sliding_window.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/numbers/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/sliding_window.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/movement/copy_line.h"

#ifndef TESSERA_BACKENDS_CPU_SLIDING_WINDOW_ONCE
#define TESSERA_BACKENDS_CPU_SLIDING_WINDOW_ONCE
namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kMostVectors = 4;  // of accumulators at a time

// A strip of output rows and its padded copy of the input.
struct Strip {
  const float* padded = nullptr;  // first line of the first row
  std::int64_t row_floats = 0;    // distance between the copies of neighbouring output rows
  const std::int64_t* tap_offsets = nullptr;
  std::int64_t taps = 0;
  const float* weights = nullptr;
  float start = 0;
  float* output = nullptr;
  std::int64_t rows = 0, columns = 0;
};

// The arguments of copy_line for one line.
struct LineCopy {
  const float* line;
  std::int64_t length, start, stride, count;
  float fill;
  float* to;
};

}  // namespace
}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WindowTag = hn::ScalableTag<float>;
using WindowVector = hn::Vec<WindowTag>;
constexpr std::int64_t kWindowLanes = HWY_LANES(float);

template <WindowOperation operation>
HWY_INLINE WindowVector apply_tap(WindowVector sum, WindowVector x, WindowVector weight) {
  if constexpr (operation == WindowOperation::weighted_sum) return hn::MulAdd(x, weight, sum);
  if constexpr (operation == WindowOperation::sum) return hn::Add(sum, x);
  return hn::IfThenElse(hn::Or(hn::Gt(x, sum), hn::IsNaN(x)), x, sum);  // NaN is kept
}

template <WindowOperation operation, int rows, int vectors>
HWY_INLINE void window_block(const Strip& strip, std::int64_t row, std::int64_t column) {
  const WindowTag d;
  const float* from = strip.padded + row * strip.row_floats + column;
  WindowVector sum[rows][vectors];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = hn::Set(d, strip.start);
  }
  for (std::int64_t tap = 0; tap < strip.taps; ++tap) {
    const float* x = from + strip.tap_offsets[tap];
    const WindowVector weight = hn::Set(d, operation == WindowOperation::weighted_sum ? strip.weights[tap] : 0.0f);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) {
        sum[i][j] = apply_tap<operation>(sum[i][j], hn::LoadU(d, x + i * strip.row_floats + j * kWindowLanes), weight);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i) {
    float* to = strip.output + (row + i) * strip.columns + column;
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      const std::int64_t left = strip.columns - column - j * kWindowLanes;
      if (left >= kWindowLanes) {
        hn::StoreU(sum[i][j], d, to + j * kWindowLanes);
      } else {
        hn::BlendedStore(sum[i][j], hn::FirstN(d, static_cast<std::size_t>(left)), d, to + j * kWindowLanes);
      }
    }
  }
}

template <WindowOperation operation>
void window_strip(const Strip& strip) {
  const std::int64_t vectors = (strip.columns + kWindowLanes - 1) / kWindowLanes;
  std::int64_t done = 0;  // vectors
  for (; done + 4 <= vectors; done += 4) {
    for (std::int64_t row = 0; row < strip.rows; ++row) window_block<operation, 1, 4>(strip, row, done * kWindowLanes);
  }
  for (; done < vectors; ++done) {
    std::int64_t row = 0;
    for (; row + 4 <= strip.rows; row += 4) window_block<operation, 4, 1>(strip, row, done * kWindowLanes);
    for (; row < strip.rows; ++row) window_block<operation, 1, 1>(strip, row, done * kWindowLanes);
  }
}

void window_weighted_sum(const Strip& strip) {
  window_strip<WindowOperation::weighted_sum>(strip);
}
void window_sum(const Strip& strip) {
  window_strip<WindowOperation::sum>(strip);
}
void window_maximum(const Strip& strip) {
  window_strip<WindowOperation::maximum>(strip);
}

void copy_padded_line(const LineCopy& copy) {
  copy_line(copy.line, copy.length, copy.start, copy.stride, copy.count, copy.fill, copy.to);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(window_weighted_sum);
HWY_EXPORT(window_sum);
HWY_EXPORT(window_maximum);
HWY_EXPORT(copy_padded_line);

namespace {

constexpr std::int64_t kWidestVector = 16;       // floats, in any instruction set
constexpr std::int64_t kStripFloats = 6 * 1024;  // of the copy: most of the first-level cache

}  // namespace

SlidingWindow::SlidingWindow(std::vector<ops::WindowAxis> axes, WindowOperation operation)
    : axes_(std::move(axes)), operation_(operation) {
  axes_.insert(axes_.begin(), 3 - axes_.size(), ops::WindowAxis{.input = 1, .output = 1});
  for (ops::WindowAxis& axis : axes_) {
    if (axis.output <= 1) axis.stride = 1;  // a single output needs no stride, whatever its size
  }
  const auto& [depth, row, column] = std::tie(axes_[0], axes_[1], axes_[2]);
  phase_floats_ = base::checked_add(base::round_up(column.output, kWidestVector), column.extent() / column.stride + 1);
  phase_floats_ = base::round_up(phase_floats_, kWidestVector);
  line_floats_ = base::checked_multiply(phase_floats_, std::min(column.stride, column.extent()));
  const std::int64_t halo =
      std::max<std::int64_t>(0, row.extent() - row.stride);  // rows that neighbouring strips share
  const std::int64_t wanted = (kStripFloats / depth.kernel / line_floats_ - halo) / row.stride;
  strip_rows_ =
      std::clamp<std::int64_t>(wanted, std::min<std::int64_t>(8, row.output), std::max<std::int64_t>(row.output, 1));
  if (strip_rows_ < 1) strip_rows_ = 1;
  row_strips_ = base::ceil_divide(row.output, strip_rows_);
  if (row_strips_ > 0) strip_rows_ = base::ceil_divide(row.output, row_strips_);
  const std::int64_t lines = base::checked_add(base::checked_multiply(strip_rows_ - 1, row.stride), row.extent());
  plane_floats_ = base::checked_multiply(lines, line_floats_);
  for (std::int64_t z = 0; z < depth.kernel; ++z) {
    for (std::int64_t y = 0; y < row.kernel; ++y) {
      for (std::int64_t x = 0; x < column.kernel; ++x) {
        const std::int64_t position = x * column.dilation;
        tap_offsets_.push_back(z * plane_floats_ + y * row.dilation * line_floats_ +
                               position % column.stride * phase_floats_ + position / column.stride);
      }
    }
  }
}

std::string SlidingWindow::reject(const std::vector<ops::WindowAxis>& axes) {
  if (axes.size() > 3) return fmt::format("{} spatial axes; expected at most 3", axes.size());
  constexpr std::int64_t kLongestStride = std::int64_t{1} << 24;
  double taps = 1, copied = 1;
  for (const ops::WindowAxis& axis : axes) {
    if (axis.output > 1 && axis.stride > kLongestStride) return "a very long stride";
    taps *= static_cast<double>(axis.kernel);
    copied *= static_cast<double>(axis.extent()) + static_cast<double>(&axis == &axes.back() ? axis.output : 0);
  }
  return taps > 0x1p16 || copied > 0x1p24 ? "a very large window" : "";
}

std::int64_t SlidingWindow::grain() const {
  const double cycles = static_cast<double>(strip_rows_ * axes_[2].output) * static_cast<double>(taps()) / 8.0 + 200;
  return static_cast<std::int64_t>(std::clamp(50e3 / cycles, 1.0, 1024.0));
}

std::pair<std::int64_t, std::int64_t> SlidingWindow::run(std::int64_t index, const float* input, const float* weights,
                                                         float start, float* output) const {
  const ops::WindowAxis &depth = axes_[0], &row = axes_[1], &column = axes_[2];
  const std::int64_t z = index / row_strips_, first = index % row_strips_ * strip_rows_;
  const std::int64_t rows = std::min(strip_rows_, row.output - first);
  const float fill = operation_ == WindowOperation::maximum ? -std::numeric_limits<float>::infinity() : 0.0f;
  thread_local std::vector<float> padded;
  const auto needed = static_cast<std::size_t>(depth.kernel * plane_floats_ + kWidestVector);
  if (padded.size() < needed) padded.resize(needed);
  const std::int64_t lines = (rows - 1) * row.stride + row.extent();
  for (std::int64_t k = 0; k < depth.kernel; ++k) {
    const std::int64_t from_plane = z * depth.stride - depth.pad_begin + k * depth.dilation;
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t from_row = first * row.stride - row.pad_begin + line;
      const bool inside = from_plane >= 0 && from_plane < depth.input && from_row >= 0 && from_row < row.input;
      const std::int64_t offset = inside ? (from_plane * row.input + from_row) * column.input : 0;
      float* to = padded.data() + k * plane_floats_ + line * line_floats_;
      for (std::int64_t phase = 0; phase < line_floats_ / phase_floats_; ++phase) {
        HWY_DYNAMIC_DISPATCH(copy_padded_line)
        ({input + offset, inside ? column.input : 0, phase - column.pad_begin, column.stride, phase_floats_, fill,
          to + phase * phase_floats_});
      }
    }
  }
  const std::int64_t first_line = z * row.output + first;
  const Strip strip{padded.data(),
                    row.stride * line_floats_,
                    tap_offsets_.data(),
                    taps(),
                    weights,
                    operation_ == WindowOperation::maximum ? fill : start,
                    output + first_line * column.output,
                    rows,
                    column.output};
  switch (operation_) {
    case WindowOperation::weighted_sum:
      HWY_DYNAMIC_DISPATCH(window_weighted_sum)(strip);
      break;
    case WindowOperation::sum:
      HWY_DYNAMIC_DISPATCH(window_sum)(strip);
      break;
    case WindowOperation::maximum:
      HWY_DYNAMIC_DISPATCH(window_maximum)(strip);
      break;
  }
  return {first_line, first_line + rows};
}

}  // namespace tessera::backends::cpu
#endif
