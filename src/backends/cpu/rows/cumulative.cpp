// CumSum of f32 (added up in double, as the reference does), i32 and i64 (which wrap).
#include <type_traits>

#include "backends/cpu/rows/kernels.h"
#include "ops/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

// Elements a chunk.
constexpr std::int64_t kGrain = 8192;

template <typename T>
void cum_sum_typed(KernelContext& context) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(ops::single_integer(context.input(1), "axis"), input.rank());
  if (input.elements() == 0) return;
  const bool exclusive = context.integer("exclusive") != 0, reverse = context.integer("reverse") != 0;
  const std::int64_t length = input.shape()[static_cast<std::size_t>(axis)];
  const std::int64_t inner = element_count(Shape(input.shape().begin() + axis + 1, input.shape().end()));
  const T* x = input.data<T>();
  T* y = context.output(0).mutable_data<T>();
  const std::int64_t lines = input.elements() / length, step = reverse ? -inner : inner;
  context.parallel_for(lines, std::max<std::int64_t>(1, kGrain / length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      std::int64_t at = line / inner * length * inner + line % inner + (reverse ? (length - 1) * inner : 0);
      Sum sum = 0;
      for (std::int64_t i = 0; i < length; ++i, at += step) {
        const Sum next = sum + static_cast<Sum>(x[at]);
        y[at] = static_cast<T>(exclusive ? sum : next);
        sum = next;
      }
    }
  });
}

}  // namespace

std::string reject_cum_sum(const ops::NodeView& view) {
  const DType type = view.input(0).dtype;
  return type == DType::f32 || type == DType::i32 || type == DType::i64 ? "" : "takes f32, i32 and i64";
}

void cum_sum(KernelContext& context) {
  switch (context.input(0).dtype()) {
    case DType::f32:
      return cum_sum_typed<float>(context);
    case DType::i32:
      return cum_sum_typed<std::int32_t>(context);
    default:
      return cum_sum_typed<std::int64_t>(context);
  }
}

}  // namespace tessera::backends::cpu
