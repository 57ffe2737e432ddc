// Concat and Split: copies runs of bytes from several tensors to one, and from one to several.
#include "ops/movement/concat.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/strided_copy.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kConcatGrainBytes = 128 * 1024;

// `rows` runs of `bytes` bytes; source and target have their own distance between runs.
struct Runs {
  const std::byte* source;
  std::byte* target;
  std::int64_t bytes, source_stride, target_stride;
};

template <typename T>
void copy_elements(const Runs& runs, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    std::memcpy(runs.target + row * runs.target_stride, runs.source + row * runs.source_stride, sizeof(T));
  }
}

void copy_rows(const Runs& runs, std::int64_t begin, std::int64_t end) {
  // Runs of one element are copied by a loop without calls.
  if (runs.bytes == 4) return copy_elements<std::uint32_t>(runs, begin, end);
  if (runs.bytes == 8) return copy_elements<std::uint64_t>(runs, begin, end);
  if (runs.bytes == 0) return;
  for (std::int64_t row = begin; row < end; ++row) {
    std::memcpy(runs.target + row * runs.target_stride, runs.source + row * runs.source_stride,
                static_cast<std::size_t>(runs.bytes));
  }
}

void copy_rows(const KernelContext& context, const Runs& runs, std::int64_t rows) {
  if (rows * runs.bytes <= kConcatGrainBytes) return copy_rows(runs, 0, rows);
  if (rows > 1) {
    const std::int64_t grain = std::max<std::int64_t>(1, kConcatGrainBytes / runs.bytes);
    return context.parallel_for(rows, grain,
                                [&](std::int64_t begin, std::int64_t end) { copy_rows(runs, begin, end); });
  }
  context.parallel_for(runs.bytes, kConcatGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(runs.target + begin, runs.source + begin, static_cast<std::size_t>(end - begin));
  });
}

// Products of the dimensions before and after an axis.
struct AxisProducts {
  AxisProducts(const Shape& shape, std::int64_t axis) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<std::int64_t>(i) < axis) outer *= shape[i];
      if (static_cast<std::int64_t>(i) > axis) inner *= shape[i];
    }
  }
  std::int64_t outer = 1, inner = 1;
};

}  // namespace

void concat(KernelContext& context) {
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), context.input(0).rank());
  Shape shape = context.input(0).shape();
  std::int64_t& length = shape[static_cast<std::size_t>(axis)];
  bool fits = true;
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    const Shape& other = context.input(i).shape();
    fits = fits && other.size() == shape.size();
    for (std::size_t k = 0; fits && k < shape.size(); ++k) {
      fits = static_cast<std::int64_t>(k) == axis || other[k] == shape[k];
    }
    if (fits) length += other[static_cast<std::size_t>(axis)];
  }
  if (!fits) {  // reported by the operator's own check
    std::vector<ir::Dims> dims;
    for (std::size_t i = 0; i < context.input_count(); ++i) dims.push_back(ir::to_dims(context.input(i).shape()));
    ops::concat_dims(dims, axis);
  }
  Tensor& output = context.allocate_output(0, shape);
  const AxisProducts products(shape, axis);
  const std::int64_t element = bits_of(output.dtype()) / 8;
  const std::int64_t whole = length * products.inner * element;
  auto* target = static_cast<std::byte*>(output.mutable_raw());
  std::vector<Runs> runs;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const Tensor& input = context.input(i);
    const std::int64_t bytes = input.shape()[static_cast<std::size_t>(axis)] * products.inner * element;
    runs.push_back({static_cast<const std::byte*>(input.raw()), target, bytes, bytes, whole});
    target += bytes;
  }
  if (products.outer == 1) {
    for (const Runs& run : runs) copy_rows(context, run, 1);
  } else if (whole > 0) {
    // Loops over the rows of all inputs together: many small inputs are worth several threads too.
    context.parallel_for(products.outer, std::max<std::int64_t>(1, kConcatGrainBytes / whole),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (const Runs& run : runs) copy_rows(run, begin, end);
                         });
  }
}

void split(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), input.rank());
  const std::int64_t length = input.shape()[static_cast<std::size_t>(axis)];
  const std::vector<std::int64_t> sizes =
      context.has_input(1) ? ops::integers_of(context.input(1))
                           : ops::split_evenly(length, static_cast<std::int64_t>(context.output_count()));
  ops::check_split(sizes, length);
  require(sizes.size() == context.output_count(), ErrorKind::invalid_model, "{} sizes for {} outputs", sizes.size(),
          context.output_count());
  const AxisProducts products(input.shape(), axis);
  const std::int64_t element = bits_of(input.dtype()) / 8;
  const std::int64_t whole = length * products.inner * element;
  const auto* source = static_cast<const std::byte*>(input.raw());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t bytes = sizes[i] * products.inner * element;
    if (context.wants_output(i)) {
      Shape shape = input.shape();
      shape[static_cast<std::size_t>(axis)] = sizes[i];
      Tensor& output = context.allocate_output(i, std::move(shape));
      copy_rows(context, {source, static_cast<std::byte*>(output.mutable_raw()), bytes, whole, bytes}, products.outer);
    }
    source += bytes;
  }
}

}  // namespace tessera::backends::cpu
