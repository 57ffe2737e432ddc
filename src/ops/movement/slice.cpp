#include "ops/movement/slice.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

// An end that stands for the end of an axis of any size.
constexpr std::int64_t kUnbounded = std::numeric_limits<std::int32_t>::max();

// Whether the slice takes all of axis i, whatever its size.
bool takes_whole_axis(const SliceRequest& request, std::size_t i) {
  return request.starts[i] == 0 && request.ends[i] >= kUnbounded && request.steps[i] == 1;
}

void infer_known(InferContext& context, const ir::Dims& input) {
  const SliceRequest request =
      slice_request(*context.constant_integers(1), *context.constant_integers(2), context.constant_integers(3),
                    context.constant_integers(4), static_cast<std::int64_t>(input.size()));
  ir::Dims result = input;
  for (std::size_t i = 0; i < request.axes.size(); ++i) {
    ir::Dim& dim = result[request.axes[i]];
    const bool whole = takes_whole_axis(request, i);
    if (dim.is_known()) dim = slice_range(dim.value(), request.starts[i], request.ends[i], request.steps[i]).count;
    else if (!whole) dim = ir::Dim();
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

void infer_slice(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  if (input == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const auto known = [&](std::size_t i) { return !context.has_input(i) || context.constant(i) != nullptr; };
  if (known(1) && known(2) && known(3) && known(4)) return infer_known(context, *input);
  ir::Dims result(input->size());
  if (context.has_input(3) && known(3)) {
    // Only the stated axes change.
    result = *input;
    for (std::int64_t axis : normalise_axes(*context.constant_integers(3), static_cast<std::int64_t>(input->size())))
      result[axis] = ir::Dim();
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

// The bytes of the sliced box, not of the whole input.
double slice_bytes_read(const NodeView& view) {
  return static_cast<double>(view.output(0).bytes());
}

// Scatters the gradient axis by axis: the same slice of 0 … n - 1 gives the positions.
void slice_gradient(GradientContext& c) {
  const Term x = c.input(0), starts = c.input(1).cast(DType::i64);
  std::vector<std::int64_t> axes;
  if (c.has_input(3)) {
    axes = normalise_axes(c.constant_integers(3), x.rank());
  } else {
    const std::optional<Shape> count = c.builder().type(starts.id()).shape();
    require(count.has_value(), ErrorKind::unsupported, "the number of its starts is not known");
    axes = all_axes((*count)[0]);
  }
  Term result = c.gradient();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto entry = [&](std::size_t input) {
      return c.input(input).cast(DType::i64).combine("Gather", {x.integers({static_cast<std::int64_t>(i)})});
    };
    const Term size = x.size_of(axes[i]), zero = x.integers({0});
    const Term scalar(c.builder(), c.builder().constant(Tensor::scalar(std::int64_t{0}))),
        one(c.builder(), c.builder().constant(Tensor::scalar(std::int64_t{1})));
    const Term all = scalar.combine("Range", {size.combine("Squeeze", {zero}), one});
    const Term taken = all.combine("Slice", {entry(1), entry(2), zero, c.has_input(4) ? entry(4) : x.integers({1})});
    result = scatter_rows(result, taken, axes[i], size);
  }
  c.set(0, result);
}

}  // namespace

std::optional<SliceRequest> slice_request_of(const ir::Graph& graph, const ir::Node& slice) {
  const std::optional<ir::Dims>& dims = graph.value(slice.inputs[0]).type.dims;
  std::optional<std::vector<std::int64_t>> arguments[4];  // starts, ends, axes, steps
  for (std::size_t i = 0; i < 4; ++i) {
    arguments[i] = constant_integers(graph, slice, i + 1);
    if (!arguments[i] && (i < 2 || (i + 1 < slice.inputs.size() && slice.inputs[i + 1].valid()))) return std::nullopt;
  }
  if (!dims) return std::nullopt;
  return slice_request(*arguments[0], *arguments[1], arguments[2], arguments[3],
                       static_cast<std::int64_t>(dims->size()));
}

bool takes_all(const SliceRequest& request, const ir::Dims& dims) {
  for (std::size_t i = 0; i < request.axes.size(); ++i) {
    const ir::Dim& dim = dims[static_cast<std::size_t>(request.axes[i])];
    const bool all = dim.is_known() && request.steps[i] == 1 &&
                     slice_range(dim.value(), request.starts[i], request.ends[i], 1).count == dim.value();
    if (!all && !takes_whole_axis(request, i)) return false;
  }
  return true;
}

SliceRange slice_range(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  require(step != 0, ErrorKind::invalid_model, "a slice with step 0");
  if (dim == 0) return {0, 1, 0};
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  // Unsigned, because the magnitude of the smallest integer has no signed form.
  std::uint64_t distance = 0;
  const std::uint64_t pace = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, dim);
    end = std::clamp<std::int64_t>(end, 0, dim);
    if (end > start) distance = static_cast<std::uint64_t>(end - start);
  } else {
    start = std::clamp<std::int64_t>(start, 0, dim - 1);
    end = std::clamp<std::int64_t>(end, -1, dim - 1);
    if (start > end) distance = static_cast<std::uint64_t>(start - end);
  }
  const std::int64_t count = distance == 0 ? 0 : static_cast<std::int64_t>((distance - 1) / pace) + 1;
  return {count == 0 ? 0 : start, count > 1 ? step : 1, count};
}

SliceRequest slice_request(std::vector<std::int64_t> starts, std::vector<std::int64_t> ends,
                           std::optional<std::vector<std::int64_t>> axes,
                           std::optional<std::vector<std::int64_t>> steps, std::int64_t rank) {
  const std::size_t count = starts.size();
  if (!axes) {
    require(static_cast<std::int64_t>(count) <= rank, ErrorKind::invalid_model, "{} starts for a tensor of rank {}",
            count, rank);
    axes = all_axes(static_cast<std::int64_t>(count));
  }
  if (!steps) steps = std::vector<std::int64_t>(count, 1);
  require(ends.size() == count && axes->size() == count && steps->size() == count, ErrorKind::invalid_model,
          "{} starts, {} ends, {} axes and {} steps must be as many", count, ends.size(), axes->size(), steps->size());
  for (std::int64_t step : *steps) require(step != 0, ErrorKind::invalid_model, "a slice with step 0");
  return {std::move(starts), std::move(ends), normalise_axes(*axes, rank), std::move(*steps)};
}

const OpDef slice{
    .name = "Slice",
    .since = 13,
    .inputs = {{"data", types::all, "T"},
               {"starts", types::index, "Tind"},
               {"ends", types::index, "Tind"},
               {"axes", types::index, "Tind", optional},
               {"steps", types::index, "Tind", optional}},
    .outputs = {{"output", types::all, "T"}},
    .infer = infer_slice,
    .bytes_read = slice_bytes_read,
    .gradient = slice_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

}  // namespace tessera::ops
