// Windows that slide over single channels, for depthwise convolution and pooling. The input of a strip of outputs is
// copied to padded lines, one per phase of the stride, in which every tap of a vector of outputs is one unaligned load.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {

enum class WindowOperation : std::uint8_t { weighted_sum, sum, maximum };

// The geometry of one channel, with one to three spatial axes, extended to [depth, rows, columns] by axes of size 1.
class SlidingWindow {
 public:
  SlidingWindow(std::vector<ops::WindowAxis> axes, WindowOperation operation);
  // Returns why windows of this geometry are not supported (more than three axes, or too large a padded copy), or "".
  static std::string reject(const std::vector<ops::WindowAxis>& axes);

  std::int64_t taps() const { return static_cast<std::int64_t>(tap_offsets_.size()); }
  std::int64_t inputs() const { return axes_[0].input * axes_[1].input * axes_[2].input; }
  std::int64_t outputs() const { return axes_[0].output * axes_[1].output * axes_[2].output; }
  const std::vector<ops::WindowAxis>& axes() const { return axes_; }  // always three
  // The number of pieces of a channel, which may run in any order on any threads, and how many to hand out at once.
  std::int64_t strips() const { return axes_[0].output * row_strips_; }
  std::int64_t grain() const;

  // Computes output = start + sum (or maximum) over the taps of weight * input, where padding counts as 0 (or as the
  // least number). `weights` has taps() elements and is read only for a weighted sum; `start` is a sum's first term.
  // Returns the rows written, [first, second) of the channel's depth * rows lines.
  std::pair<std::int64_t, std::int64_t> run(std::int64_t strip, const float* input, const float* weights, float start,
                                            float* output) const;

 private:
  std::vector<ops::WindowAxis> axes_;
  WindowOperation operation_;
  std::int64_t strip_rows_ = 1, row_strips_ = 1;
  std::int64_t phase_floats_ = 0, line_floats_ = 0, plane_floats_ = 0;  // of the padded copy
  std::vector<std::int64_t> tap_offsets_;                               // in the copy, from an output's first tap
};

}  // namespace tessera::backends::cpu
