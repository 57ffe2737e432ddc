#include "backends/cpu/convolutions/response_planes.h"

#include <algorithm>

#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kMostColumnPlanes = 8;

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
  const ops::WindowAxis& columns = axes_[1];
  by_column_ = columns.kernel <= kMostColumnPlanes;
  column_planes_ = by_column_ ? columns.kernel : columns.stride;
  row_elements_ = width() + (by_column_ ? 0 : place_of(columns, columns.kernel - 1).position);
  // Short rows are aligned to half a vector: every second load then crosses a cache line, but half as many are needed.
  const std::int64_t unit = 2 * width() <= lanes ? std::max(1, lanes / 2) : lanes;
  pitch_ =
      are_plain() || !by_column_ ? row_elements_ : base::checked_multiply(base::ceil_divide(row_elements_, unit), unit);
  base::checked_multiply(base::checked_multiply(base::checked_multiply(rows.stride, column_planes_), rows_), pitch_);
}

std::pair<std::int64_t, std::int64_t> ResponsePlanes::plane_of_column(std::int64_t column) const {
  if (by_column_) return {column, 0};
  const Place place = place_of(axes_[1], column);
  return {place.phase, place.position};
}

std::int64_t ResponsePlanes::touched_by(std::int64_t line_elements) const {
  const std::int64_t last = place_of(axes_[0], axes_[0].kernel - 1).position;
  const std::int64_t phases = std::ranges::count(meets_, true);
  return phases * column_planes_ * (line_elements + last * pitch_ + row_elements_ - width());
}

bool ResponsePlanes::are_plain() const {
  return (axes_[1].kernel == 1 || !by_column_) && std::ranges::all_of(axes_, [](const ops::WindowAxis& axis) {
           return axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
         });
}

std::int64_t ResponsePlanes::line_of(std::int64_t tap) const {
  const Place y = place_of(axes_[0], tap / axes_[1].kernel);
  const auto [plane, x] = plane_of_column(tap % axes_[1].kernel);
  return ((y.phase * column_planes_ + plane) * rows_ + y.position) * pitch_ + x;
}

std::pair<std::int64_t, std::int64_t> ResponsePlanes::inside(const ops::WindowAxis& axis, std::int64_t shift,
                                                             std::int64_t count) {
  const auto first_at = [&](std::int64_t position) {  // the first at or behind this position
    return std::clamp<std::int64_t>(position <= shift ? 0 : base::ceil_divide(position - shift, axis.stride), 0, count);
  };
  return {first_at(0), first_at(axis.input)};
}

// Element p of row q of a column's plane is the response under that column at position p of the result, in row q of the
// phase. Element p of row q of a phase's plane is the response at position p of that phase of the columns.
void ResponsePlanes::fill(const float* responses, float* planes, CopyRowsFunction copy_rows) const {
  const auto& [rows, columns] = axes_;
  for (std::int64_t phase = 0; phase < rows.stride; ++phase) {
    if (!meets_[static_cast<std::size_t>(phase)]) continue;
    const auto [top, bottom] = inside(rows, phase - rows.pad_begin, rows_);
    for (std::int64_t i = 0; i < column_planes_; ++i) {
      float* const plane = planes + (phase * column_planes_ + i) * rows_ * pitch_;
      const std::int64_t shift = (by_column_ ? i * columns.dilation : i) - columns.pad_begin;
      const auto [begin, end] = inside(columns, shift, row_elements_);
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
