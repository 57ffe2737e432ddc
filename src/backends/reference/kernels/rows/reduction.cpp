#include "ops/rows/reduction.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/backend.h"
#include "backends/reference/broadcast.h"
#include "backends/transient_memory.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {
namespace {

// The position in the result of each element of a reduction.
struct Groups {
  std::vector<std::int64_t> result_of;  // position in the result, by element
  std::int64_t results = 0;
};

Groups prepare(KernelContext& context) {
  const Tensor& input = context.input(0);
  std::vector<std::int64_t> given;
  if (context.has_input(1)) given = ops::integers_of(context.input(1));
  const auto axes = ops::reduction_axes(given, input.rank(), context.integer("noop_with_empty_axes") != 0);
  const ir::Dims dims = ir::to_dims(input.shape());
  context.allocate_output(0, ops::concrete_shape(ops::reduced_dims(dims, axes, context.integer("keepdims") != 0)));
  const Shape kept = ops::concrete_shape(ops::reduced_dims(dims, axes, true));
  return {broadcast_positions(kept, input.shape()), element_count(kept)};
}

// result = finish(step(… step(start, x0) …, xn), n)
template <typename T, typename Step, typename Finish>
void reduce(KernelContext& context, T start, Step step, Finish finish) {
  const Groups groups = prepare(context);
  std::vector<T> result = transient_vector<T>(groups.results, start);
  const std::vector<T> values = read<T>(context.input(0));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T& sum = result[static_cast<std::size_t>(groups.result_of[i])];
    sum = step(sum, values[i]);
  }
  const std::int64_t count = result.empty() ? 0 : static_cast<std::int64_t>(values.size() / result.size());
  for (T& value : result) value = finish(value, count);
  write(result, context.output(0));
}

// Sums and products: integers wrap, in uint64; floats are computed in double.
template <typename Step>
void reduce_wrapping(KernelContext& context, int start, Step step) {
  const auto finish = [](auto value, std::int64_t) { return value; };
  if (is_float(context.input(0).dtype())) reduce(context, static_cast<double>(start), step, finish);
  else reduce(context, static_cast<std::uint64_t>(start), step, finish);
}

// Computes in double for all types, as numpy does for functions with non-integer results; integer results are
// truncated.
template <typename Step, typename Finish>
void reduce_as_double(KernelContext& context, Step step, Finish finish) {
  reduce(context, 0.0, step, finish);
}

// The least (or greatest) value of an integer type, the initial value of a maximum (or minimum).
template <typename T>
T extreme(DType type, bool lowest) {
  if constexpr (std::is_floating_point_v<T>) {
    return lowest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  } else {
    if (type == DType::boolean) return lowest ? 0 : 1;
    const int unused = std::numeric_limits<T>::digits + (std::is_signed_v<T> ? 1 : 0) - bits_of(type);
    return lowest ? std::numeric_limits<T>::min() >> unused : std::numeric_limits<T>::max() >> unused;
  }
}

// The result is NaN if any element is NaN.
void reduce_extreme(KernelContext& context, bool largest) {
  const DType type = context.input(0).dtype();
  with_wide_type(type, [&](auto zero) {
    using T = decltype(zero);
    reduce(
        context, extreme<T>(type, largest),
        [=](T best, T x) { return best != best                      ? best
                                  : x != x || (best < x) == largest ? x
                                                                    : best; },
        [](T value, std::int64_t) { return value; });
  });
}

}  // namespace

void reduce_sum(KernelContext& context) {
  reduce_wrapping(context, 0, [](auto sum, auto x) { return sum + x; });
}

void reduce_prod(KernelContext& context) {
  reduce_wrapping(context, 1, [](auto product, auto x) { return product * x; });
}

void reduce_sum_square(KernelContext& context) {
  reduce_wrapping(context, 0, [](auto sum, auto x) { return sum + x * x; });
}

void reduce_l1(KernelContext& context) {
  const bool has_sign = !is_unsigned_integer(context.input(0).dtype());
  reduce_wrapping(context, 0, [=](auto sum, auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>) return sum + std::fabs(x);
    else return sum + (has_sign && static_cast<std::int64_t>(x) < 0 ? 0 - x : x);
  });
}

void reduce_l2(KernelContext& context) {
  reduce_as_double(
      context, [](double sum, double x) { return sum + x * x; },
      [](double sum, std::int64_t) { return std::sqrt(sum); });
}

void reduce_log_sum(KernelContext& context) {
  reduce_as_double(
      context, [](double sum, double x) { return sum + x; }, [](double sum, std::int64_t) { return std::log(sum); });
}

// The mean of no elements is 0 / 0: NaN for floats and 0 for integers.
void reduce_mean(KernelContext& context) {
  reduce_as_double(
      context, [](double sum, double x) { return sum + x; },
      [](double sum, std::int64_t count) { return sum / static_cast<double>(count); });
}

// largest + log(sum exp(x - largest))
void reduce_log_sum_exp(KernelContext& context) {
  const Groups groups = prepare(context);
  const std::vector<double> values = read<double>(context.input(0));
  std::vector<double> largest = transient_vector<double>(groups.results, -INFINITY);
  std::vector<double> sum(largest.size(), 0.0);
  const auto group = [&](std::size_t i) { return static_cast<std::size_t>(groups.result_of[i]); };
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& best = largest[group(i)];
    if (values[i] > best || std::isnan(values[i])) best = values[i];
  }
  // An infinite maximum is the result: subtracting it would give NaN.
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isinf(largest[group(i)])) sum[group(i)] += std::exp(values[i] - largest[group(i)]);
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = std::isinf(largest[i]) ? largest[i] : largest[i] + std::log(sum[i]);
  write(sum, context.output(0));
}

void reduce_max(KernelContext& context) {
  reduce_extreme(context, true);
}

void reduce_min(KernelContext& context) {
  reduce_extreme(context, false);
}

}  // namespace tessera::backends::reference
