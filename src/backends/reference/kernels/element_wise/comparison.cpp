#include <string>

#include "backends/backend.h"
#include "backends/reference/broadcast.h"

namespace tessera::backends::reference {
namespace {

template <typename F>
void compare(KernelContext& context, F f) {
  const Tensor &a = context.input(0), &b = context.input(1);
  Tensor& output = context.output(0);
  bool* result = output.mutable_data<bool>();
  if (a.dtype() == DType::string) {
    const std::vector<std::int64_t> x = broadcast_positions(a.shape(), output.shape());
    const std::vector<std::int64_t> y = broadcast_positions(b.shape(), output.shape());
    for (std::size_t i = 0; i < x.size(); ++i) {
      result[i] = f(a.data<std::string>()[x[i]], b.data<std::string>()[y[i]]);
    }
    return;
  }
  with_wide_type(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> x = read_broadcast<T>(a, output.shape()), y = read_broadcast<T>(b, output.shape());
    for (std::size_t i = 0; i < x.size(); ++i) result[i] = f(x[i], y[i]);
  });
}

template <typename F>
void combine_logic(KernelContext& context, F f) {
  Tensor& output = context.output(0);
  const std::vector<std::uint64_t> x = read_broadcast<std::uint64_t>(context.input(0), output.shape());
  const std::vector<std::uint64_t> y = read_broadcast<std::uint64_t>(context.input(1), output.shape());
  bool* result = output.mutable_data<bool>();
  for (std::size_t i = 0; i < x.size(); ++i) result[i] = f(x[i] != 0, y[i] != 0);
}

}  // namespace

void equal(KernelContext& context) {
  compare(context, [](const auto& x, const auto& y) { return x == y; });
}

void greater(KernelContext& context) {
  compare(context, [](const auto& x, const auto& y) { return x > y; });
}

void greater_or_equal(KernelContext& context) {
  compare(context, [](const auto& x, const auto& y) { return x >= y; });
}

void less(KernelContext& context) {
  compare(context, [](const auto& x, const auto& y) { return x < y; });
}

void less_or_equal(KernelContext& context) {
  compare(context, [](const auto& x, const auto& y) { return x <= y; });
}

void logical_and(KernelContext& context) {
  combine_logic(context, [](bool x, bool y) { return x && y; });
}

void logical_or(KernelContext& context) {
  combine_logic(context, [](bool x, bool y) { return x || y; });
}

void logical_xor(KernelContext& context) {
  combine_logic(context, [](bool x, bool y) { return x != y; });
}

}  // namespace tessera::backends::reference
