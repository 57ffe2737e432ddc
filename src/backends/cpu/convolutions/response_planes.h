// A layout of a dictionary's responses for the lookups of a convolution: the responses under a tap at all positions of
// the result are one contiguous line of a padded plane. Narrow kernels have one plane for each of their columns,
// shifted so that lines begin at multiples of a vector and no load crosses a cache line. For wide kernels that would
// take too much memory: their planes are the phases of the columns' stride, and lines may begin anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {

// For each row r: to[r * count + p] = from[r * pitch + p] for begin <= p < end, and 0 for the other p < count.
struct RowCopy {
  const float* from = nullptr;
  std::int64_t pitch = 0, begin = 0, end = 0, count = 0, rows = 0;
  float* to = nullptr;
};
using CopyRowsFunction = void (*)(const RowCopy&);

// Position (y, x) of the result is element y * pitch() + x of a line; the elements of a row from width to pitch are
// padding.
class ResponsePlanes {
 public:
  // `axes`: one or two spatial axes. `lanes`: lanes of a vector.
  ResponsePlanes(std::vector<ops::WindowAxis> axes, int lanes);

  std::int64_t height() const { return axes_[0].output; }
  std::int64_t width() const { return axes_[1].output; }
  std::int64_t pitch() const { return pitch_; }
  std::int64_t line_elements() const { return height() == 0 ? 0 : (height() - 1) * pitch_ + width(); }
  std::int64_t taps() const { return axes_[0].kernel * axes_[1].kernel; }
  std::int64_t input_elements() const { return axes_[0].input * axes_[1].input; }
  // The number of elements of all planes of one vector of the dictionary.
  std::int64_t elements() const { return axes_[0].stride * column_planes_ * rows_ * pitch_; }
  // The number of elements that the lines of all taps touch, if `line_elements` of each line are read.
  std::int64_t touched_by(std::int64_t line_elements) const;
  // Whether the responses, as computed in the order [height, width] of the data, already have this layout.
  bool are_plain() const;
  // The offset of the line of a tap; taps are in the order of the kernel.
  std::int64_t line_of(std::int64_t tap) const;
  // Copies the responses of one vector, as computed, into this layout. Phases without taps stay undefined.
  void fill(const float* responses, float* planes, CopyRowsFunction copy_rows) const;

 private:
  // The plane of a column of the kernel, among those of one phase of the rows, and the offset of its lines in a row.
  std::pair<std::int64_t, std::int64_t> plane_of_column(std::int64_t column) const;
  // The positions [first, second) of `count` positions in steps of the stride from `shift` that lie inside of the data.
  static std::pair<std::int64_t, std::int64_t> inside(const ops::WindowAxis& axis, std::int64_t shift,
                                                      std::int64_t count);

  std::array<ops::WindowAxis, 2> axes_;
  std::vector<bool> meets_;            // whether a phase of the rows has any tap
  bool by_column_ = true;              // whether each column of the kernel has a plane
  std::int64_t column_planes_ = 0;     // planes of one phase of the rows
  std::int64_t rows_ = 0, pitch_ = 0;  // of one plane
  std::int64_t row_elements_ = 0;      // of a row, without padding up to the pitch
};

}  // namespace tessera::backends::cpu
