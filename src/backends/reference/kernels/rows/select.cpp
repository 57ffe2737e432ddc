#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// A total order: NaN is last and equals itself; complex numbers are ordered by real, then imaginary part.
template <typename T>
bool less(const T& a, const T& b) {
  return a < b;
}
bool less(double a, double b) {
  return std::isnan(b) ? !std::isnan(a) : a < b;
}
bool less(const std::complex<double>& a, const std::complex<double>& b) {
  if (less(a.real(), b.real()) || less(b.real(), a.real())) return less(a.real(), b.real());
  return less(a.imag(), b.imag());
}

// 0, 1 … count - 1
std::vector<std::int64_t> positions_up_to(std::int64_t count) {
  std::vector<std::int64_t> positions = transient_vector<std::int64_t>(count);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

// Calls body(values) with the elements in a type that `less` can compare.
template <typename Body>
void with_values(const Tensor& tensor, Body body) {
  if (tensor.dtype() == DType::string) {
    body(std::vector<std::string>(tensor.data<std::string>(), tensor.data<std::string>() + tensor.elements()));
  } else if (is_complex(tensor.dtype())) {
    body(read<std::complex<double>>(tensor));
  } else {
    with_wide_type(tensor.dtype(), [&](auto wide) { body(read<decltype(wide)>(tensor)); });
  }
}

Tensor list_of(const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span<const std::int64_t>(values));
}

void put_list(KernelContext& context, std::size_t i, const std::vector<std::int64_t>& values) {
  if (!context.wants_output(i)) return;
  Tensor& output = context.allocate_output(i, {static_cast<std::int64_t>(values.size())});
  copy_run(list_of(values), 0, output, 0, output.elements());
}

// Copies the slices of `input` (as [outer, length, inner]) at `positions`, in that order.
void take_slices(const Tensor& input, const AxisView& view, const std::vector<std::int64_t>& positions,
                 Tensor& output) {
  const std::int64_t count = static_cast<std::int64_t>(positions.size());
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t i = 0; i < count; ++i) {
      copy_run(input, (o * view.length + positions[i]) * view.inner, output, (o * count + i) * view.inner, view.inner);
    }
  }
}

struct UniqueSlices {
  std::vector<std::int64_t> first, inverse, counts;
};

// Groups the slices of equal values along the axis; groups are ordered by value, or by first occurrence.
template <typename Values>
UniqueSlices find_unique(const Values& values, const AxisView& view, bool sorted) {
  const auto compare = [&](std::int64_t a, std::int64_t b) {
    for (std::int64_t o = 0; o < view.outer; ++o) {
      for (std::int64_t i = 0; i < view.inner; ++i) {
        const auto& left = values[(o * view.length + a) * view.inner + i];
        const auto& right = values[(o * view.length + b) * view.inner + i];
        if (less(left, right)) return -1;
        if (less(right, left)) return 1;
      }
    }
    return 0;
  };
  std::vector<std::int64_t> order = positions_up_to(view.length);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return compare(a, b) < 0; });
  UniqueSlices result;
  result.inverse.resize(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) {
      result.first.push_back(order[i]);
      result.counts.push_back(0);
    }
    result.inverse[order[i]] = static_cast<std::int64_t>(result.first.size()) - 1;
    ++result.counts.back();
  }
  if (sorted) return result;
  std::vector<std::int64_t> by_first = positions_up_to(static_cast<std::int64_t>(result.first.size()));
  std::sort(by_first.begin(), by_first.end(), [&](auto a, auto b) { return result.first[a] < result.first[b]; });
  UniqueSlices reordered = result;
  std::vector<std::int64_t> place(by_first.size());
  for (std::size_t i = 0; i < by_first.size(); ++i) {
    reordered.first[i] = result.first[by_first[i]];
    reordered.counts[i] = result.counts[by_first[i]];
    place[by_first[i]] = static_cast<std::int64_t>(i);
  }
  for (std::int64_t& group : reordered.inverse) group = place[group];
  return reordered;
}

}  // namespace

void compress(KernelContext& context) {
  const Tensor& input = context.input(0);
  const bool flat = !context.has_attribute("axis");
  const std::int64_t axis = flat ? 0 : ops::normalise_axis(context.integer("axis"), input.rank());
  const AxisView view = flat ? AxisView{1, input.elements(), 1} : axis_view(input.shape(), axis);
  const std::span<const bool> condition = context.input(1).values<bool>();
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (!condition[i]) continue;
    const std::int64_t bound = flat ? input.elements() : input.shape()[axis];
    require(static_cast<std::int64_t>(i) < bound, ErrorKind::failed,
            "condition {} is true, but there are only {} entries", i, bound);
    positions.push_back(static_cast<std::int64_t>(i));
  }
  Shape shape = flat ? Shape{0} : input.shape();
  shape[axis] = static_cast<std::int64_t>(positions.size());
  take_slices(input, view, positions, context.allocate_output(0, shape));
}

void non_zero(KernelContext& context) {
  const Tensor& input = context.input(0);
  std::vector<bool> set(static_cast<std::size_t>(input.elements()));
  with_values(input, [&](const auto& values) {
    for (std::size_t i = 0; i < set.size(); ++i) set[i] = values[i] != std::decay_t<decltype(values[i])>{};
  });
  const std::int64_t count = std::count(set.begin(), set.end(), true);
  std::int64_t* output = context.allocate_output(0, {input.rank(), count}).mutable_data<std::int64_t>();
  std::int64_t column = 0;
  for_each_index(input.shape(), [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    if (!set[position]) return;
    for (std::size_t i = 0; i < index.size(); ++i) output[static_cast<std::int64_t>(i) * count + column] = index[i];
    ++column;
  });
}

void unique(KernelContext& context) {
  const Tensor& input = context.input(0);
  const bool flat = !context.has_attribute("axis");
  const std::int64_t axis = flat ? 0 : ops::normalise_axis(context.integer("axis"), input.rank());
  Shape shape = flat ? Shape{input.elements()} : input.shape();
  require(shape[axis] <= std::max<std::int64_t>(1, input.elements()), ErrorKind::failed,
          "cannot compare {} slices without elements", shape[axis]);
  AxisView view = axis_view(shape, axis);
  view.length = shape[axis];
  UniqueSlices slices;
  with_values(input, [&](const auto& values) { slices = find_unique(values, view, context.integer("sorted") != 0); });
  shape[axis] = static_cast<std::int64_t>(slices.first.size());
  if (context.wants_output(0)) take_slices(input, view, slices.first, context.allocate_output(0, shape));
  put_list(context, 1, slices.first);
  put_list(context, 2, slices.inverse);
  put_list(context, 3, slices.counts);
}

// Ties go to the lower index; NaN counts as larger than every number.
void top_k(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), input.rank());
  const std::int64_t k = ops::single_integer(context.input(1), "K");
  Shape shape = input.shape();
  require(k >= 0 && k <= shape[axis], ErrorKind::failed, "K is {}, expected at most the dimension, {}", k, shape[axis]);
  shape[axis] = k;
  const AxisView view = axis_view(input.shape(), axis);
  Tensor spare_values(input.dtype(), context.wants_output(0) ? Shape{0} : shape);
  Tensor spare_indices(DType::i64, context.wants_output(1) ? Shape{0} : shape);
  Tensor& values = context.wants_output(0) ? context.allocate_output(0, shape) : spare_values;
  Tensor& indices = context.wants_output(1) ? context.allocate_output(1, shape) : spare_indices;
  if (values.elements() == 0) return;
  const bool largest = context.integer("largest") != 0;
  std::vector<std::int64_t> order(static_cast<std::size_t>(view.length));
  with_values(input, [&](const auto& x) {
    for (std::int64_t line = 0; line < view.outer * view.inner; ++line) {
      const std::int64_t start = line / view.inner * view.length * view.inner + line % view.inner;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int64_t a, std::int64_t b) {
        const auto left = x[start + a * view.inner], right = x[start + b * view.inner];
        if (less(left, right)) return !largest;
        if (less(right, left)) return largest;
        return a < b;
      });
      const std::int64_t target = line / view.inner * k * view.inner + line % view.inner;
      for (std::int64_t i = 0; i < k; ++i) {
        copy_element(input, start + order[i] * view.inner, values, target + i * view.inner);
        indices.mutable_data<std::int64_t>()[target + i * view.inner] = order[i];
      }
    }
  });
}

}  // namespace tessera::backends::reference
