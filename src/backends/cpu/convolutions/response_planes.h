// Where the responses of a dictionary lie while a convolution looks them up: padded, and taken apart by the phases of
// the stride, so that the responses that a tap meets at all positions of the result, one after the other, are one line.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/window_geometry.h"

namespace tessera::backends::cpu {

// Position (y, x) of the result is element y * pitch() + x of a line; the elements between width and pitch of a row are
// to be left out.
class ResponsePlanes {
 public:
  // `axes`: one or two spatial axes.
  explicit ResponsePlanes(std::vector<ops::WindowAxis> axes);

  std::int64_t height() const { return axes_[0].output; }
  std::int64_t width() const { return axes_[1].output; }
  std::int64_t pitch() const { return pitch_; }
  std::int64_t line_elements() const { return height() == 0 ? 0 : (height() - 1) * pitch_ + width(); }
  std::int64_t taps() const { return axes_[0].kernel * axes_[1].kernel; }
  std::int64_t input_elements() const { return axes_[0].input * axes_[1].input; }
  // The number of elements of the plane of one vector of the dictionary, all phases together.
  std::int64_t elements() const { return axes_[0].stride * axes_[1].stride * rows_ * pitch_; }
  // Whether the responses as they are computed, [height, width] of the data, already lie so.
  bool are_plain() const;
  // Where the line of the tap, in the order of the kernel, begins.
  std::int64_t line_of(std::int64_t tap) const;
  // Brings the responses of one vector, as they are computed, into this form. Phases that no tap meets stay undefined.
  void fill(const float* responses, float* planes) const;

 private:
  void fill_row(const float* row, std::int64_t phase, float* to) const;

  std::array<ops::WindowAxis, 2> axes_;
  std::array<std::vector<bool>, 2> meets_;  // which phases of the axis some tap meets
  std::int64_t rows_ = 0, pitch_ = 0;       // of one phase
};

}  // namespace tessera::backends::cpu
