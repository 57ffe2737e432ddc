// CumSum of f32 and f64 (added up in double, as the reference does), i32 and i64 (which wrap).
#include <algorithm>
#include <array>
#include <type_traits>

#include "backends/cpu/rows/kernels.h"
#include "ops/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

// Elements a chunk.
constexpr std::int64_t kGrain = 8192;

// Neighbouring lines whose sums run side by side.
constexpr std::int64_t kLines = 128;

// i64 runs in 64 bits and i32 in 32, unsigned, so that sums wrap.
template <typename T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double,
                               std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

struct Line {
  std::int64_t length, step;  // elements, and from one to the next
  bool exclusive;
};

template <typename T>
void add_up(const T* x, T* y, const Line& line) {
  Sum<T> sum = 0;
  for (std::int64_t i = 0, at = 0; i < line.length; ++i, at += line.step) {
    const Sum<T> next = sum + static_cast<Sum<T>>(x[at]);
    y[at] = static_cast<T>(line.exclusive ? sum : next);
    sum = next;
  }
}

// `lines` of them, up to kLines, that lie beside each other.
template <typename T, bool exclusive>
void add_up_together(const T* x, T* y, const Line& line, std::int64_t lines) {
  std::array<Sum<T>, kLines> sums{};
  for (std::int64_t i = 0; i < line.length; ++i, x += line.step, y += line.step) {
    for (std::int64_t j = 0; j < lines; ++j) {
      const Sum<T> sum = sums[static_cast<std::size_t>(j)], next = sum + static_cast<Sum<T>>(x[j]);
      y[j] = static_cast<T>(exclusive ? sum : next);
      sums[static_cast<std::size_t>(j)] = next;
    }
  }
}

template <typename T>
void cum_sum_typed(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(ops::single_integer(context.input(1), "axis"), input.rank());
  if (input.elements() == 0) return;
  const bool reverse = context.integer("reverse") != 0;
  const std::int64_t length = input.shape()[static_cast<std::size_t>(axis)];
  const std::int64_t inner = element_count(Shape(input.shape().begin() + axis + 1, input.shape().end()));
  const Line line{length, reverse ? -inner : inner, context.integer("exclusive") != 0};
  // A block is up to kLines lines of one position in front of the axis.
  const std::int64_t blocks = (inner + kLines - 1) / kLines, outer = input.elements() / length / inner;
  const T* x = input.data<T>();
  T* y = context.output(0).mutable_data<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / length / std::min(inner, kLines));
  context.parallel_for(outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % blocks * kLines, lines = std::min(kLines, inner - first);
      const std::int64_t at = item / blocks * length * inner + first + (reverse ? (length - 1) * inner : 0);
      if (inner == 1) add_up(x + at, y + at, line);
      else if (line.exclusive) add_up_together<T, true>(x + at, y + at, line, lines);
      else add_up_together<T, false>(x + at, y + at, line, lines);
    }
  });
}

}  // namespace

std::string reject_cum_sum(const ops::NodeView& view) {
  const DType type = view.input(0).dtype;
  const bool is_taken = type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64;
  return is_taken ? "" : "takes f32, f64, i32 and i64";
}

void cum_sum(KernelContext& context) {
  switch (context.input(0).dtype()) {
    case DType::f32:
      return cum_sum_typed<float>(context);
    case DType::f64:
      return cum_sum_typed<double>(context);
    case DType::i32:
      return cum_sum_typed<std::int32_t>(context);
    default:
      return cum_sum_typed<std::int64_t>(context);
  }
}

}  // namespace tessera::backends::cpu
