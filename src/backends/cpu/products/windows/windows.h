// Windows over channels-last data, as products and their layers use them: the window geometry, and the lines of an
// image that windows read. The rows of a matrix are windows of one pixel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/convolutions/window_geometry.h"
#include "tessera/tensor.h"

namespace tessera::backends::cpu {

// Window geometry of data [N, spatial..., C], always with three spatial axes [depth, rows, columns]: missing ones have
// size 1.
struct ChannelsLastGeometry {
  std::int64_t batch = 1, channels = 1;
  ops::WindowAxis axes[3];

  std::int64_t inputs() const { return axes[0].input * axes[1].input * axes[2].input; }      // positions of an image
  std::int64_t outputs() const { return axes[0].output * axes[1].output * axes[2].output; }  // of a result
  std::int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
};

// An element of working memory whose vectors must not cross cache lines.
struct alignas(64) CacheLine {
  static constexpr std::int64_t kFloats = 16;
  float floats[kFloats];
};

// Whether windows are single pixels, in order.
bool is_pointwise(const ChannelsLastGeometry& geometry);
// The geometry of a matrix [..., inputs] as images of one pixel.
ChannelsLastGeometry rows_geometry(const Shape& x);

// Lines of an image: all of them one after the other, or a ring of the last few, with line i at place i % period.
template <typename T>
struct PictureLines {
  T* data = nullptr;
  std::int64_t elements = 0;  // of a line
  std::int64_t period = 0;    // 0: all lines

  T* at(std::int64_t line) const { return data + (period == 0 ? line : line % period) * elements; }
  // The number of contiguous lines from this one on.
  std::int64_t together(std::int64_t line) const {
    return period == 0 ? std::numeric_limits<std::int64_t>::max() : period - line % period;
  }
  operator PictureLines<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, elements, period};
  }
};

// Lines of bytes, for values of a chain that have different element types; `elements` counts bytes. ConstByteLines:
// lines that are read.
using ByteLines = PictureLines<std::byte>;
using ConstByteLines = PictureLines<const std::byte>;
template <typename T, typename Bytes>
PictureLines<T> lines_of_type(const PictureLines<Bytes>& lines) {
  return {reinterpret_cast<T*>(lines.data), lines.elements / static_cast<std::int64_t>(sizeof(T)), lines.period};
}

}  // namespace tessera::backends::cpu
