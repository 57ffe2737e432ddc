#include "ops/movement/scatter.h"

#include <cmath>
#include <complex>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "backends/reference/index.h"
#include "ops/core/shape_arguments.h"
#include "ops/movement/scatter_rows.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using ops::ScatterReduction;

// Integers wrap; the result is NaN if either operand is NaN.
template <typename T>
T combine(ScatterReduction reduction, T old, T update) {
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    return reduction == ScatterReduction::add ? old + update : old * update;
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(old) || std::isnan(update)) return NAN;
    }
    using Carrier = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
    const Carrier a = static_cast<Carrier>(old), b = static_cast<Carrier>(update);
    switch (reduction) {
      case ScatterReduction::add:
        return static_cast<T>(a + b);
      case ScatterReduction::mul:
        return static_cast<T>(a * b);
      case ScatterReduction::max:
        return old < update ? update : old;
      case ScatterReduction::min:
        return update < old ? update : old;
      case ScatterReduction::none:
        break;
    }
    return update;
  }
}

template <typename T>
void reduce(ScatterReduction reduction, const Tensor& updates, const std::vector<std::int64_t>& targets,
            Tensor& output) {
  std::vector<T> values = read<T>(output);
  const std::vector<T> added = read<T>(updates);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    T& value = values[targets[i]];
    value = combine(reduction, value, added[i]);
  }
  write(values, output);
}

// output = data, then update i is combined with element targets[i], in order.
void scatter(ScatterReduction reduction, const Tensor& data, const Tensor& updates,
             const std::vector<std::int64_t>& targets, Tensor& output) {
  copy_run(data, 0, output, 0, data.elements());
  if (targets.empty()) return;
  if (reduction == ScatterReduction::none) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      copy_element(updates, static_cast<std::int64_t>(i), output, targets[i]);
    }
  } else if (is_complex(data.dtype()) && reduction != ScatterReduction::max && reduction != ScatterReduction::min) {
    reduce<std::complex<double>>(reduction, updates, targets, output);
  } else {
    with_wide_type(data.dtype(), [&](auto wide) { reduce<decltype(wide)>(reduction, updates, targets, output); });
  }
}

}  // namespace

void scatter_elements(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  require(indices.shape() == context.input(2).shape() && indices.rank() == data.rank(), ErrorKind::invalid_model,
          "data {}, indices {} and updates {} do not fit together", to_string(data.shape()), to_string(indices.shape()),
          to_string(context.input(2).shape()));
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), data.rank());
  const std::vector<std::int64_t> strides = strides_of(data.shape()), positions = ops::integers_of(indices);
  std::vector<std::int64_t> targets(positions.size());
  for_each_index(indices.shape(), [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    for (std::int64_t i = 0; i < data.rank(); ++i) {
      const std::int64_t along = i == axis ? positions[position] : index[i];
      targets[position] += strides[i] * normalise_index(along, data.shape()[i]);
    }
  });
  scatter(ops::scatter_reduction(context), data, context.input(2), targets, context.output(0));
}

void scatter_nd(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  const Tensor& updates = context.input(2);
  const std::int64_t depth = indices.rank() > 0 ? indices.shape().back() : 0;
  require(depth >= 1 && depth <= data.rank(), ErrorKind::invalid_model, "an index has {} parts, but data is {}", depth,
          to_string(data.shape()));
  Shape wanted(indices.shape().begin(), indices.shape().end() - 1);
  wanted.insert(wanted.end(), data.shape().begin() + depth, data.shape().end());
  require(updates.shape() == wanted, ErrorKind::invalid_model, "updates has shape {}, expected {}",
          to_string(updates.shape()), to_string(wanted));
  const std::vector<std::int64_t> strides = strides_of(data.shape()), parts = ops::integers_of(indices);
  const std::int64_t run = axis_view(data.shape(), depth - 1).inner;
  std::vector<std::int64_t> targets;
  targets.reserve(static_cast<std::size_t>(updates.elements()));
  for (std::int64_t tuple = 0; tuple < indices.elements() / depth; ++tuple) {
    std::int64_t to = 0;
    for (std::int64_t i = 0; i < depth; ++i) {
      to += strides[i] * normalise_index(parts[tuple * depth + i], data.shape()[i]);
    }
    for (std::int64_t i = 0; i < run; ++i) targets.push_back(to + i);
  }
  scatter(ops::scatter_reduction(context), data, updates, targets, context.output(0));
}

void tensor_scatter(KernelContext& context) {
  const Tensor& cache = context.input(0);
  const Tensor& update = context.input(1);
  Tensor& output = context.output(0);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), cache.rank());
  const AxisView to = axis_view(cache.shape(), axis), from = axis_view(update.shape(), axis);
  const bool circular = context.text("mode") == "circular";
  copy_run(cache, 0, output, 0, cache.elements());
  if (update.elements() == 0) return;
  std::vector<std::int64_t> starts(static_cast<std::size_t>(cache.shape()[0]), 0);
  if (context.has_input(2)) starts = ops::integers_of(context.input(2));
  require(from.outer == to.outer && from.inner == to.inner && from.length <= to.length &&
              static_cast<std::int64_t>(starts.size()) == cache.shape()[0],
          ErrorKind::invalid_model, "past_cache {}, update {} and {} write_indices do not fit together",
          to_string(cache.shape()), to_string(update.shape()), starts.size());
  for (std::int64_t o = 0; o < to.outer; ++o) {
    const std::int64_t start = starts[o / (to.outer / cache.shape()[0])];
    require(start >= 0 && (circular || start <= to.length - from.length), ErrorKind::failed,
            "write index {} with {} steps is outside a cache of {}", start, from.length, to.length);
    for (std::int64_t step = 0; step < from.length; ++step) {
      const std::int64_t position = (start % to.length + step) % to.length;
      const std::int64_t target = circular ? position : start + step;
      copy_run(update, (o * from.length + step) * from.inner, output, (o * to.length + target) * to.inner, to.inner);
    }
  }
}

void scatter_rows(KernelContext& context) {
  const Tensor &rows = context.input(0), &indices = context.input(1);
  const std::int64_t size = ops::single_integer(context.input(2), "size");
  const ops::ScatterRowsShape shape = ops::scatter_rows_shape(context, rows.shape(), indices.shape(), size);
  Tensor& output = context.allocate_output(0, ops::scatter_rows_result(context, rows.shape(), indices.shape(), size));
  const std::vector<std::int64_t> positions = ops::integers_of(indices);
  const std::vector<double> values = read<double>(rows);
  std::vector<double> result = transient_vector<double>(output.elements(), 0.0);
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    for (std::int64_t k = 0; k < shape.count; ++k) {
      const std::int64_t to = normalise_index(positions[static_cast<std::size_t>(k)], size);
      for (std::int64_t i = 0; i < shape.inner; ++i)
        result[(o * size + to) * shape.inner + i] += values[(o * shape.count + k) * shape.inner + i];
    }
  }
  write(result, output);
}

void sum_rows(KernelContext& context) {
  const Tensor &rows = context.input(0), &indices = context.input(1);
  const std::int64_t size = ops::single_integer(context.input(2), "size"), count = indices.elements();
  const std::int64_t inner = count == 0 ? 0 : rows.elements() / count;
  const std::vector<std::int64_t> positions = ops::integers_of(indices);
  const std::vector<double> values = read<double>(rows);
  std::map<std::int64_t, std::vector<double>> sums;  // by position
  for (std::int64_t k = 0; k < count; ++k) {
    std::vector<double>& sum = sums[normalise_index(positions[static_cast<std::size_t>(k)], size)];
    sum.resize(static_cast<std::size_t>(inner));
    for (std::int64_t i = 0; i < inner; ++i) sum[static_cast<std::size_t>(i)] += values[k * inner + i];
  }
  std::vector<double> result;
  std::vector<std::int64_t> places;
  for (const auto& [place, sum] : sums) {
    places.push_back(place);
    result.insert(result.end(), sum.begin(), sum.end());
  }
  places.resize(static_cast<std::size_t>(count), size);
  result.resize(static_cast<std::size_t>(count * inner));
  write(result, context.output(0));
  write(places, context.output(1));
}

}  // namespace tessera::backends::reference
