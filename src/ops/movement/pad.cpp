#include "ops/movement/pad.h"

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

void infer_pad(InferContext& context) {
  pad_mode(context);
  const ir::Dims* input = context.dims(0);
  if (input == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const auto pads = context.constant_integers(1);
  ir::Dims result(input->size());
  if (pads && (!context.has_input(3) || context.constant(3) != nullptr)) {
    const PadAmounts amounts =
        pad_amounts(*pads, context.constant_integers(3), static_cast<std::int64_t>(input->size()));
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = padded_dim((*input)[i], amounts.begin[i], amounts.end[i]);
  } else if (const auto axes = context.constant_integers(3)) {
    result = *input;
    for (std::int64_t axis : normalise_axes(*axes, static_cast<std::int64_t>(input->size()))) result[axis] = ir::Dim();
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

void infer_center_crop_pad(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  if (input == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const auto request = context.constant_integers(1);
  ir::Dims result(input->size());
  if (request) {
    result = center_crop_pad_dims(context, *input, *request);
  } else if (context.has_attribute("axes")) {
    result = *input;
    for (std::int64_t axis : normalise_axes(context.integers("axes"), static_cast<std::int64_t>(input->size())))
      result[axis] = ir::Dim();
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

// The gradient of modes that repeat elements: axis by axis, gradients of copies are added to that of their source.
// Padding the positions themselves gives the source of each position.
void repeated_pad_gradient(GradientContext& c) {
  const Term x = c.input(0);
  std::optional<std::vector<std::int64_t>> axes;
  if (c.has_input(3)) axes = c.constant_integers(3);
  const PadAmounts amounts = pad_amounts(c.constant_integers(1), axes, x.rank());
  Term g = c.gradient();
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (amounts.begin[i] == 0 && amounts.end[i] == 0) continue;
    const Term size = x.size_of(axis), none = size.integers({}), zero(c.builder(), c.builder().scalar(0, DType::i64)),
               one(c.builder(), c.builder().scalar(1, DType::i64));
    const Term positions = zero.combine("Range", {size.combine("Reshape", {none}), one});
    const Term sources =
        positions.combine("Pad", {size.integers({amounts.begin[i], amounts.end[i]})}, {{"mode", c.text("mode")}});
    g = scatter_rows(g, sources, axis, size);
  }
  c.set(0, g.of_shape(x));
}

// Removes the padding from the gradient; elements that negative padding removed have a zero gradient.
void pad_gradient(GradientContext& c) {
  if (pad_mode(c) != PadMode::constant) return repeated_pad_gradient(c);
  const std::vector<ir::ValueId> inputs{
      c.gradient().id(), (-c.input(1)).id(), {}, c.has_input(3) ? c.input(3).id() : ir::ValueId{}};
  const Term inner(c.builder(), c.builder().add("Pad", inputs));
  c.set(0, inner);
  const auto total = [](Term term) { return term.apply("ReduceSum", {{"keepdims", std::int64_t{0}}}); };
  if (c.wants(2)) c.set(2, (total(c.gradient()) - total(inner)).reshape_like(c.input(2)));
}

// Crops what was padded and pads what was cropped; both round the same way.
void center_crop_pad_gradient(GradientContext& c) {
  const Term x = c.input(0);
  const std::vector<std::int64_t> axes =
      c.has_attribute("axes") ? normalise_axes(c.integers("axes"), x.rank()) : all_axes(x.rank());
  std::vector<Term> sizes;
  for (const std::int64_t axis : axes) sizes.push_back(x.size_of(axis));
  if (sizes.empty()) return c.set(0, c.gradient());
  c.set(0, c.gradient().combine("CenterCropPad", {join(sizes)}, {{"axes", axes}}).of_shape(x));
}

}  // namespace

PadMode pad_mode(const AttributeReader& reader) {
  const std::string& mode = reader.text("mode");
  if (mode == "constant") return PadMode::constant;
  if (mode == "reflect") return PadMode::reflect;
  if (mode == "edge") return PadMode::edge;
  require(mode == "wrap", ErrorKind::invalid_model, "mode is '{}', expected constant, reflect, edge or wrap", mode);
  return PadMode::wrap;
}

PadAmounts pad_amounts(std::span<const std::int64_t> pads, std::optional<std::vector<std::int64_t>> axes,
                       std::int64_t rank) {
  const std::vector<std::int64_t> padded = axes ? normalise_axes(*axes, rank) : all_axes(rank);
  require(pads.size() == 2 * padded.size(), ErrorKind::invalid_model, "{} pads for {} axes, expected two an axis",
          pads.size(), padded.size());
  PadAmounts amounts{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 0)};
  for (std::size_t i = 0; i < padded.size(); ++i) {
    amounts.begin[padded[i]] = pads[i];
    amounts.end[padded[i]] = pads[padded.size() + i];
  }
  return amounts;
}

ir::Dim padded_dim(const ir::Dim& dim, std::int64_t begin, std::int64_t end) {
  if (begin == 0 && end == 0) return dim;
  if (!dim.is_known()) return {};
  // Elements that negative padding removes must exist before padding is added at the other end.
  const std::int64_t removed = base::checked_add(std::min<std::int64_t>(begin, 0), std::min<std::int64_t>(end, 0));
  require(base::checked_add(dim.value(), removed) >= 0, ErrorKind::invalid_model,
          "pads {} and {} remove more than a dimension of {}", begin, end, dim.value());
  return base::checked_add(base::checked_add(dim.value(), begin), end);
}

ir::Dims center_crop_pad_dims(const AttributeReader& reader, const ir::Dims& input,
                              std::span<const std::int64_t> request) {
  const std::int64_t rank = static_cast<std::int64_t>(input.size());
  const std::vector<std::int64_t> axes =
      reader.has_attribute("axes") ? normalise_axes(reader.integers("axes"), rank) : all_axes(rank);
  require(request.size() == axes.size(), ErrorKind::invalid_model, "{} dimensions for {} axes", request.size(),
          axes.size());
  ir::Dims result = input;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    require(request[i] >= 0, ErrorKind::invalid_model, "dimension {} in the requested shape", request[i]);
    result[axes[i]] = request[i];
  }
  return result;
}

const OpDef pad{
    .name = "Pad",
    .since = 25,
    .inputs = {{"data", types::all, "T"},
               {"pads", types::i64},
               {"constant_value", types::all, "T", optional},
               {"axes", types::index, "", optional}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"mode", ir::AttributeKind::text, ir::Attribute(std::string("constant"))}},
    .infer = infer_pad,
    .gradient = pad_gradient,
    .traits = {Trait::moves},
};

const OpDef center_crop_pad{
    .name = "CenterCropPad",
    .since = 18,
    .inputs = {{"input_data", types::all, "T"}, {"shape", types::index}},
    .outputs = {{"output_data", types::all, "T"}},
    .attributes = {{"axes", ir::AttributeKind::integers}},
    .infer = infer_center_crop_pad,
    .gradient = center_crop_pad_gradient,
};

}  // namespace tessera::ops
