// Loops over sliding windows, shared by convolutions and pooling.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "base/numbers/checked.h"
#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::reference {

using namespace host;

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return std::max<std::int64_t>(end - begin, 0); }
};

// The taps k of window `o` that are inside of [0, size).
inline Range taps_inside(const ops::WindowAxis& axis, std::int64_t o, std::int64_t size) {
  const std::int64_t start = o * axis.stride - axis.pad_begin;
  return {std::max<std::int64_t>(0, base::ceil_divide(-start, axis.dilation)),
          std::min(axis.kernel, base::ceil_divide(size - start, axis.dilation))};
}

// The windows o in [0, count) whose tap k is inside of [0, size).
inline Range windows_inside(const ops::WindowAxis& axis, std::int64_t k, std::int64_t count, std::int64_t size) {
  const std::int64_t shift = k * axis.dilation - axis.pad_begin;
  return {std::max<std::int64_t>(0, base::ceil_divide(-shift, axis.stride)),
          std::min(count, base::ceil_divide(size - shift, axis.stride))};
}

// Pairs of (window, position under one of its taps), row by row along the last axis. For a convolution, windows are
// outputs and positions inputs; for a transposed one it is the other way round.
class WindowRows {
 public:
  WindowRows(std::span<const ops::WindowAxis> axes, bool transposed) : axes_(axes.begin(), axes.end()) {
    for (const ops::WindowAxis& axis : axes_) {
      kernel_.push_back(axis.kernel);
      windows_.push_back(transposed ? axis.input : axis.output);
      positions_.push_back(transposed ? axis.output : axis.input);
    }
    window_strides_ = strides_of(windows_);
    position_strides_ = strides_of(positions_);
  }

  std::int64_t taps() const { return element_count(kernel_); }
  std::int64_t windows() const { return element_count(windows_); }
  std::int64_t positions() const { return element_count(positions_); }
  // The distance between positions of neighbouring windows of a row.
  std::int64_t step() const { return axes_.back().stride; }

  // Calls body(tap, window, position, length): for tap number `tap`, windows `window` + i read positions `position` + i
  // * step(). Checks from time to time whether the run has to stop: a large window over large rows takes seconds.
  template <typename Body>
  void for_each(const KernelContext& context, Body body) const {
    constexpr std::int64_t kPairsBetweenChecks = 1 << 20;
    context.check_stop();
    std::int64_t unchecked = 0;
    std::vector<std::int64_t> tap(axes_.size(), 0), row(axes_.size());
    std::int64_t number = 0;
    std::vector<Range> ranges(axes_.size());
    do {
      bool empty = false;
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        ranges[i] = windows_inside(axes_[i], tap[i], windows_[i], positions_[i]);
        empty = empty || ranges[i].count() == 0;
        row[i] = ranges[i].begin;
      }
      while (!empty) {
        unchecked += ranges.back().count();
        if (unchecked >= kPairsBetweenChecks) {
          context.check_stop();
          unchecked = 0;
        }
        body(number, offset(row), position_of(row, tap), ranges.back().count());
        empty = !next_row(row, ranges);
      }
      ++number;
    } while (advance(tap, kernel_));
  }

 private:
  std::int64_t offset(const std::vector<std::int64_t>& row) const {
    std::int64_t result = 0;
    for (std::size_t i = 0; i < row.size(); ++i) result += row[i] * window_strides_[i];
    return result;
  }

  std::int64_t position_of(const std::vector<std::int64_t>& row, const std::vector<std::int64_t>& tap) const {
    std::int64_t result = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const ops::WindowAxis& axis = axes_[i];
      result += (row[i] * axis.stride - axis.pad_begin + tap[i] * axis.dilation) * position_strides_[i];
    }
    return result;
  }

  // Advances all axes but the last.
  static bool next_row(std::vector<std::int64_t>& row, const std::vector<Range>& ranges) {
    for (std::size_t i = row.size() - 1; i-- > 0;) {
      if (++row[i] < ranges[i].end) return true;
      row[i] = ranges[i].begin;
    }
    return false;
  }

  std::vector<ops::WindowAxis> axes_;
  Shape kernel_, windows_, positions_;
  std::vector<std::int64_t> window_strides_, position_strides_;
};

// y[n, m, window] += w[m, c, tap] * x[n, c of m's group, position]; x [N, C, spatial...], w [M, C/groups, kernel...], y
// [N, M, spatial...], added to the values of y. T: double or int64_t.
template <typename T>
void convolve(const KernelContext& context, const WindowRows& rows, std::int64_t groups, const Shape& x_shape,
              const Shape& w_shape, const std::vector<T>& x, const std::vector<T>& w, std::vector<T>& y) {
  if (y.empty()) return;
  const std::int64_t channels = x_shape[1], outputs = w_shape[0], per_group = w_shape[1];
  const std::int64_t outputs_per_group = outputs / groups, step = rows.step();
  context.parallel_for(x_shape[0] * outputs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / outputs, m = i % outputs;
      T* target = y.data() + i * rows.windows();
      for (std::int64_t c = 0; c < per_group; ++c) {
        const std::int64_t channel = m / outputs_per_group * per_group + c;
        const T* source = x.data() + (n * channels + channel) * rows.positions();
        const T* weights = w.data() + (m * per_group + c) * rows.taps();
        rows.for_each(context, [&](std::int64_t tap, std::int64_t window, std::int64_t position, std::int64_t length) {
          for (std::int64_t k = 0; k < length; ++k) target[window + k] += weights[tap] * source[position + k * step];
        });
      }
    }
  });
}

// The initial values of every output channel: bias[m] (or 0 without a bias) for each of the channel's `inner` elements.
template <typename T>
std::vector<T> start_from_bias(const std::vector<T>& bias, const Shape& y_shape) {
  std::vector<T> y = transient_vector<T>(element_count(y_shape), T{0});
  if (bias.empty() || y.empty()) return y;
  const std::int64_t channels = y_shape[1];
  const std::int64_t inner = static_cast<std::int64_t>(y.size()) / (y_shape[0] * channels);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = bias[static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % channels)];
  }
  return y;
}

}  // namespace tessera::backends::reference
