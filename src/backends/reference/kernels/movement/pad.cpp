#include "ops/movement/pad.h"

#include <algorithm>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The source of element `i` of an axis with `kept` elements, counted from the first kept one (negative before it); -1
// for the constant. Reflection continues back and forth as numpy.pad does.
std::int64_t source_position(std::int64_t i, std::int64_t kept, ops::PadMode mode) {
  if (i >= 0 && i < kept) return i;
  switch (mode) {
    case ops::PadMode::constant:
      return -1;
    case ops::PadMode::edge:
      return i < 0 ? 0 : kept - 1;
    case ops::PadMode::wrap:
      return (i % kept + kept) % kept;
    case ops::PadMode::reflect:
      break;
  }
  if (kept == 1) return 0;
  const std::int64_t period = 2 * (kept - 1);
  const std::int64_t phase = (i % period + period) % period;
  return phase < kept ? phase : period - phase;
}

// Fills the output with the constant, to be overwritten.
void fill_constant(KernelContext& context, Tensor& output) {
  if (!context.has_input(2)) return fill_zero(output);
  require(context.input(2).elements() == 1, ErrorKind::invalid_model,
          "constant_value has shape {}, expected one element", to_string(context.input(2).shape()));
  fill(output, context.input(2));
}

}  // namespace

// Negative pads crop first; the rest is then padded.
void pad(KernelContext& context) {
  const Tensor& input = context.input(0);
  const ops::PadMode mode = ops::pad_mode(context);
  const auto axes = context.has_input(3) ? std::optional(ops::integers_of(context.input(3))) : std::nullopt;
  const ops::PadAmounts amounts = ops::pad_amounts(ops::integers_of(context.input(1)), axes, input.rank());
  Shape shape, kept = input.shape();
  std::vector<std::int64_t> first;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    shape.push_back(ops::padded_dim(kept[i], amounts.begin[i], amounts.end[i]).value());
    first.push_back(std::max<std::int64_t>(0, -amounts.begin[i]));
    kept[i] += std::min<std::int64_t>(amounts.begin[i], 0) + std::min<std::int64_t>(amounts.end[i], 0);
    require(mode == ops::PadMode::constant || kept[i] > 0 || shape[i] == 0, ErrorKind::failed,
            "mode {} cannot pad axis {}, which has no elements", context.text("mode"), i);
  }
  Tensor& output = context.allocate_output(0, shape);
  if (mode == ops::PadMode::constant) fill_constant(context, output);
  const std::vector<std::int64_t> strides = strides_of(input.shape());
  for_each_index(shape, [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const std::int64_t source =
          source_position(index[i] - std::max<std::int64_t>(amounts.begin[i], 0), kept[i], mode);
      if (source < 0) return;
      from += (source + first[i]) * strides[i];
    }
    copy_element(input, from, output, position);
  });
}

// A crop starts at floor(difference / 2); with padding the odd element is behind.
void center_crop_pad(KernelContext& context) {
  const Tensor& input = context.input(0);
  const Shape shape = ops::concrete_shape(
      ops::center_crop_pad_dims(context, ir::to_dims(input.shape()), ops::integers_of(context.input(1))));
  Tensor& output = context.allocate_output(0, shape);
  fill_zero(output);
  const std::vector<std::int64_t> from_strides = strides_of(input.shape()), to_strides = strides_of(shape);
  Shape common;
  std::int64_t from = 0, to = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    common.push_back(std::min(shape[i], input.shape()[i]));
    from += std::max<std::int64_t>(0, input.shape()[i] - shape[i]) / 2 * from_strides[i];
    to += std::max<std::int64_t>(0, shape[i] - input.shape()[i]) / 2 * to_strides[i];
  }
  for_each_index(common, [&](const std::vector<std::int64_t>& index, std::int64_t) {
    std::int64_t source = from, target = to;
    for (std::size_t i = 0; i < index.size(); ++i) {
      source += index[i] * from_strides[i];
      target += index[i] * to_strides[i];
    }
    copy_element(input, source, output, target);
  });
}

}  // namespace tessera::backends::reference
