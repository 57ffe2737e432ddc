#include "backends/cpu/convolutions/response_planes.h"

#include <algorithm>

#include "base/checked.h"

namespace tessera::backends::cpu {
namespace {

struct Place {
  std::int64_t phase, position;
};
Place place_of(const ops::WindowAxis& axis, std::int64_t tap) {
  return {tap * axis.dilation % axis.stride, tap * axis.dilation / axis.stride};
}

}  // namespace

ResponsePlanes::ResponsePlanes(std::vector<ops::WindowAxis> axes, int lanes) {
  if (axes.size() == 1) axes.insert(axes.begin(), {.input = 1, .output = 1});
  axes_ = {axes[0], axes[1]};
  const ops::WindowAxis& rows = axes_[0];
  meets_.resize(static_cast<std::size_t>(rows.stride));
  for (std::int64_t tap = 0; tap < rows.kernel; ++tap)
    meets_[static_cast<std::size_t>(place_of(rows, tap).phase)] = true;
  rows_ = rows.output + place_of(rows, rows.kernel - 1).position;
  // Short rows take half a vector: loads at every second one cross a cache line then, but half as many are needed.
  const std::int64_t unit = 2 * width() <= lanes ? std::max(1, lanes / 2) : lanes;
  pitch_ = are_plain() ? width() : base::checked_multiply(base::ceil_divide(width(), unit), unit);
  base::checked_multiply(base::checked_multiply(base::checked_multiply(rows.stride, axes_[1].kernel), rows_), pitch_);
}

std::int64_t ResponsePlanes::touched_by(std::int64_t line_elements) const {
  const std::int64_t last = place_of(axes_[0], axes_[0].kernel - 1).position;
  const std::int64_t phases = std::ranges::count(meets_, true);
  return phases * axes_[1].kernel * (line_elements + last * pitch_);
}

bool ResponsePlanes::are_plain() const {
  return axes_[1].kernel == 1 && std::ranges::all_of(axes_, [](const ops::WindowAxis& axis) {
           return axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
         });
}

std::int64_t ResponsePlanes::line_of(std::int64_t tap) const {
  const Place y = place_of(axes_[0], tap / axes_[1].kernel);
  return ((y.phase * axes_[1].kernel + tap % axes_[1].kernel) * rows_ + y.position) * pitch_;
}

std::pair<std::int64_t, std::int64_t> ResponsePlanes::inside(const ops::WindowAxis& axis, std::int64_t shift,
                                                             std::int64_t count) {
  const auto first_at = [&](std::int64_t position) {  // the first one at this position or behind it
    return std::clamp<std::int64_t>(position <= shift ? 0 : base::ceil_divide(position - shift, axis.stride), 0, count);
  };
  return {first_at(0), first_at(axis.input)};
}

// Element p of row q is the response that the kernel's column meets at position p of the result, in row q of the phase.
void ResponsePlanes::fill(const float* responses, float* planes, CopyRowsFunction copy_rows) const {
  const auto& [rows, columns] = axes_;
  for (std::int64_t phase = 0; phase < rows.stride; ++phase) {
    if (!meets_[static_cast<std::size_t>(phase)]) continue;
    const auto [top, bottom] = inside(rows, phase - rows.pad_begin, rows_);
    for (std::int64_t column = 0; column < columns.kernel; ++column) {
      float* const plane = planes + (phase * columns.kernel + column) * rows_ * pitch_;
      const std::int64_t shift = column * columns.dilation - columns.pad_begin;
      const auto [begin, end] = inside(columns, shift, width());
      const float* from = responses + (top * rows.stride + phase - rows.pad_begin) * columns.input + shift;
      const std::int64_t pitch = rows.stride * columns.input;
      std::fill(plane, plane + top * pitch_, 0.0f);
      std::fill(plane + bottom * pitch_, plane + rows_ * pitch_, 0.0f);
      if (columns.stride == 1) {
        copy_rows({from, pitch, begin, end, pitch_, bottom - top, plane + top * pitch_});
        continue;
      }
      for (std::int64_t q = top; q < bottom; ++q, from += pitch) {
        float* to = plane + q * pitch_;
        std::fill(to, to + begin, 0.0f);
        for (std::int64_t p = begin; p < end; ++p) to[p] = from[p * columns.stride];
        std::fill(to + end, to + pitch_, 0.0f);
      }
    }
  }
}

}  // namespace tessera::backends::cpu
