// Windows over data with the channels last, as the products and the layers that use them see them: their geometry, and
// the lines of a picture that they read. The rows of a matrix are windows of one pixel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/convolutions/window_geometry.h"
#include "tessera/tensor.h"

namespace tessera::backends::cpu {

// Window geometry of data [N, spatial..., C], always with three spatial axes [depth, rows, columns]: those that are
// missing have size 1.
struct ChannelsLastGeometry {
  std::int64_t batch = 1, channels = 1;
  ops::WindowAxis axes[3];

  std::int64_t inputs() const { return axes[0].input * axes[1].input * axes[2].input; }      // positions of an image
  std::int64_t outputs() const { return axes[0].output * axes[1].output * axes[2].output; }  // of a result
  std::int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
};

// Of working memory: vectors should not lie across two lines.
struct alignas(64) CacheLine {
  static constexpr std::int64_t kFloats = 16;
  float floats[kFloats];
};

// Whether windows are the pixels themselves, in their order.
bool is_pointwise(const ChannelsLastGeometry& geometry);
// A matrix [..., inputs] as pictures of one pixel.
ChannelsLastGeometry rows_geometry(const Shape& x);

// Lines of a picture: all of them one after the other, or the last few, line i at place i % period.
template <typename T>
struct PictureLines {
  T* data = nullptr;
  std::int64_t elements = 0;  // of a line
  std::int64_t period = 0;    // 0: all lines

  T* at(std::int64_t line) const { return data + (period == 0 ? line : line % period) * elements; }
  // How many lines from this one on lie side by side.
  std::int64_t together(std::int64_t line) const {
    return period == 0 ? std::numeric_limits<std::int64_t>::max() : period - line % period;
  }
  operator PictureLines<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, elements, period};
  }
};

// Lines of elements that are of different types from value to value of a chain; `elements` are bytes. Type: const for
// what is read.
using ByteLines = PictureLines<std::byte>;
using ConstByteLines = PictureLines<const std::byte>;
template <typename T, typename Bytes>
PictureLines<T> lines_of_type(const PictureLines<Bytes>& lines) {
  return {reinterpret_cast<T*>(lines.data), lines.elements / static_cast<std::int64_t>(sizeof(T)), lines.period};
}

}  // namespace tessera::backends::cpu
