#include "backends/host/movement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "backends/host/numeric.h"

namespace tessera::backends::host {
namespace {

// Calls body(dense position, strided position, stride, length) for every innermost line of `shape`.
template <typename Body>
void for_each_run(const Shape& shape, std::int64_t offset, const std::vector<std::int64_t>& strides, Body body) {
  const std::int64_t count = element_count(shape);
  if (count == 0) return;
  if (shape.empty()) return body(0, offset, 0, 1);
  const std::int64_t length = shape.back();
  const Shape outer(shape.begin(), shape.end() - 1);
  for_each_index(outer, [&](const std::vector<std::int64_t>& index, std::int64_t line) {
    std::int64_t position = offset;
    for (std::size_t i = 0; i < index.size(); ++i) position += index[i] * strides[i];
    body(line * length, position, strides.back(), length);
  });
}

template <std::size_t bytes>
void copy_line(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, bytes);
    from += from_step * static_cast<std::int64_t>(bytes);
    to += to_step * static_cast<std::int64_t>(bytes);
  }
}

// Copies `count` elements from source[from], source[from + from_step] … to target[to], target[to + to_step] …
void copy_line(const Tensor& source, std::int64_t from, std::int64_t from_step, Tensor& target, std::int64_t to,
               std::int64_t to_step, std::int64_t count) {
  const int bytes = bits_of(source.dtype()) / 8;
  if (bytes == 0) {
    for (std::int64_t i = 0; i < count; ++i) copy_element(source, from + i * from_step, target, to + i * to_step);
    return;
  }
  const std::byte* in = static_cast<const std::byte*>(source.raw()) + from * bytes;
  std::byte* out = static_cast<std::byte*>(target.mutable_raw()) + to * bytes;
  if (from_step == 1 && to_step == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(count * bytes));
    return;
  }
  switch (bytes) {
    case 1:
      return copy_line<1>(in, from_step, out, to_step, count);
    case 2:
      return copy_line<2>(in, from_step, out, to_step, count);
    case 4:
      return copy_line<4>(in, from_step, out, to_step, count);
    case 8:
      return copy_line<8>(in, from_step, out, to_step, count);
    default:
      return copy_line<16>(in, from_step, out, to_step, count);
  }
}

}  // namespace

void copy_strided(const Tensor& source, std::int64_t offset, const std::vector<std::int64_t>& strides, Tensor& target) {
  for_each_run(target.shape(), offset, strides,
               [&](std::int64_t dense, std::int64_t strided, std::int64_t step, std::int64_t length) {
                 copy_line(source, strided, step, target, dense, 1, length);
               });
}

void copy_run(const Tensor& source, std::int64_t from, Tensor& target, std::int64_t to, std::int64_t count) {
  if (count > 0) copy_line(source, from, 1, target, to, 1, count);
}

void fill(Tensor& target, const Tensor& value) {
  if (target.elements() > 0) copy_line(value, 0, 0, target, 0, 1, target.elements());
}

void fill_zero(Tensor& target) {
  if (target.dtype() == DType::string)
    std::fill_n(target.mutable_data<std::string>(), target.elements(), std::string());
  else if (target.bytes() > 0) std::memset(target.mutable_raw(), 0, static_cast<std::size_t>(target.bytes()));
}

AxisView axis_view(const Shape& shape, std::int64_t axis) {
  AxisView view;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t& part = static_cast<std::int64_t>(i) < axis    ? view.outer
                         : static_cast<std::int64_t>(i) == axis ? view.length
                                                                : view.inner;
    // Only a tensor without elements can overflow here.
    if (__builtin_mul_overflow(part, shape[i], &part)) return {0, 0, 0};
  }
  return view;
}

}  // namespace tessera::backends::host
