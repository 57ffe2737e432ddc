// Convolutions with the channels last that compute any lines of a picture, from lines that lie in tensors or in rings.
// What the stages of a chain (conv_chain.cpp) run on; of their own, the same objects are the kernels of whole layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "backends/backend.h"

namespace tessera::backends::cpu {

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

class LineConv {
 public:
  virtual ~LineConv() = default;
  // Lines [first, last) of the result, which lie side by side in y, and in z where that has data: what is added. So do,
  // where windows are the pixels themselves, the same lines of x. Elements are of the types that the layer's data,
  // addend and result have.
  virtual void run_lines(const ConstByteLines& x, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                         std::int64_t last) const = 0;
};

std::unique_ptr<LineConv> make_line_conv(const ops::NodeView& view, WeightStore& weights);  // channels_last_conv.cpp
std::unique_ptr<LineConv> make_depthwise_line_conv(const ops::NodeView& view,
                                                   WeightStore& weights);  // channels_last_window.cpp
std::unique_ptr<LineConv> make_bf16_line_conv(const ops::NodeView& view, WeightStore& weights);  // bf16_product.cpp
// Of data that is stored rounded.
std::unique_ptr<LineConv> make_bf16_depthwise_line_conv(const ops::NodeView& view,
                                                        WeightStore& weights);  // bf16_depthwise.cpp

}  // namespace tessera::backends::cpu
