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

ResponsePlanes::ResponsePlanes(std::vector<ops::WindowAxis> axes) {
  if (axes.size() == 1) axes.insert(axes.begin(), {.input = 1, .output = 1});
  std::array<std::int64_t, 2> positions{};
  for (std::size_t i = 0; i < 2; ++i) {
    const ops::WindowAxis& axis = axes_[i] = axes[i];
    meets_[i].resize(static_cast<std::size_t>(axis.stride));
    for (std::int64_t tap = 0; tap < axis.kernel; ++tap)
      meets_[i][static_cast<std::size_t>(place_of(axis, tap).phase)] = true;
    positions[i] = axis.output + place_of(axis, axis.kernel - 1).position;
  }
  rows_ = positions[0];
  pitch_ = positions[1];
  base::checked_multiply(base::checked_multiply(axes_[0].stride * axes_[1].stride, rows_), pitch_);
}

bool ResponsePlanes::are_plain() const {
  return std::ranges::all_of(
      axes_, [](const ops::WindowAxis& axis) { return axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0; });
}

std::int64_t ResponsePlanes::line_of(std::int64_t tap) const {
  const Place y = place_of(axes_[0], tap / axes_[1].kernel), x = place_of(axes_[1], tap % axes_[1].kernel);
  return ((y.phase * axes_[1].stride + x.phase) * rows_ + y.position) * pitch_ + x.position;
}

// Element p of the row is the response at position p * stride + phase - padding of the data.
void ResponsePlanes::fill_row(const float* row, std::int64_t phase, float* to) const {
  const ops::WindowAxis& axis = axes_[1];
  const std::int64_t shift = phase - axis.pad_begin;
  const auto first_at = [&](std::int64_t position) {  // the first element at this position or behind it
    return std::clamp<std::int64_t>(position <= shift ? 0 : base::ceil_divide(position - shift, axis.stride), 0,
                                    pitch_);
  };
  const std::int64_t begin = first_at(0), end = first_at(axis.input);
  std::fill(to, to + begin, 0.0f);
  if (axis.stride == 1) std::copy(row + begin + shift, row + end + shift, to + begin);
  else
    for (std::int64_t p = begin; p < end; ++p) to[p] = row[p * axis.stride + shift];
  std::fill(to + end, to + pitch_, 0.0f);
}

void ResponsePlanes::fill(const float* responses, float* planes) const {
  for (std::int64_t a = 0; a < axes_[0].stride; ++a) {
    for (std::int64_t b = 0; b < axes_[1].stride; ++b) {
      if (!meets_[0][static_cast<std::size_t>(a)] || !meets_[1][static_cast<std::size_t>(b)]) continue;
      for (std::int64_t q = 0; q < rows_; ++q) {
        float* to = planes + ((a * axes_[1].stride + b) * rows_ + q) * pitch_;
        const std::int64_t y = q * axes_[0].stride + a - axes_[0].pad_begin;
        if (y < 0 || y >= axes_[0].input) std::fill(to, to + pitch_, 0.0f);
        else fill_row(responses + y * axes_[1].input, b, to);
      }
    }
  }
}

}  // namespace tessera::backends::cpu
