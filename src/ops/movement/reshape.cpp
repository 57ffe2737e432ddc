#include "ops/movement/reshape.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

// Dimensions for a known request on an input with some unknown dimensions.
ir::Dims resolve_dims(const InferContext& context, const ir::Dims* input, const std::vector<std::int64_t>& request,
                      bool allow_zero) {
  ir::Dims dims;
  ir::Dims unmatched_input = input != nullptr ? *input : ir::Dims{};
  ir::Dim rest_of_output = 1;
  std::optional<std::size_t> inferred;
  for (std::size_t i = 0; i < request.size(); ++i) {
    if (request[i] == -1) {
      context.check(!inferred, "more than one -1 in the requested shape");
      inferred = i;
      dims.emplace_back();
    } else if (request[i] == 0 && !allow_zero) {
      context.check(input == nullptr || i < input->size(),
                    "0 in the requested shape at axis {}, but the input has rank {}", i,
                    input == nullptr ? 0 : input->size());
      dims.push_back(input != nullptr ? (*input)[i] : ir::Dim());
      if (input != nullptr) unmatched_input[i] = 1;  // the same factor on both sides
    } else {
      context.check(request[i] >= 0, "dimension {} in the requested shape", request[i]);
      dims.emplace_back(request[i]);
      rest_of_output = rest_of_output * ir::Dim(request[i]);
    }
  }
  if (inferred && input != nullptr) {
    const ir::Dim total = ir::product(unmatched_input);
    if (rest_of_output.is_known() && rest_of_output.value() == 1) dims[*inferred] = total;
    else if (total.is_known() && rest_of_output.is_known() && rest_of_output.value() > 0)
      dims[*inferred] = total.value() / rest_of_output.value();
  }
  return dims;
}

void infer_reshape(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  const bool allow_zero = context.integer("allowzero") != 0;
  if (const auto request = context.constant_integers(1)) {
    std::optional<Shape> known = input != nullptr ? ir::to_shape(*input) : std::nullopt;
    if (known) context.set_output(0, context.dtype(0), ir::to_dims(resolve_reshape(*known, *request, allow_zero)));
    else context.set_output(0, context.dtype(0), resolve_dims(context, input, *request, allow_zero));
    return;
  }
  // The rank of the result is the length of the request.
  if (const auto rank = known_length(context, 1)) context.set_output(0, context.dtype(0), unknown_dims(*rank));
  else context.set_output_unknown_rank(0, context.dtype(0));
}

void infer_flatten(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  context.set_output(0, context.dtype(0),
                     input != nullptr ? flatten_dims(*input, context.integer("axis")) : ir::Dims(2));
}

void infer_squeeze(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  context.set_output_unknown_rank(0, context.dtype(0));
  if (input == nullptr) return;
  if (!context.has_input(1)) {
    if (const auto shape = ir::to_shape(*input))
      context.set_output(0, context.dtype(0), squeeze_dims(*input, unit_axes(*shape)));
  } else if (const auto axes = context.constant_integers(1)) {
    context.set_output(0, context.dtype(0), squeeze_dims(*input, *axes));
  } else if (const auto count = known_length(context, 1)) {
    context.set_output(0, context.dtype(0), unknown_dims(static_cast<std::int64_t>(input->size()) - *count));
  }
}

void infer_unsqueeze(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  context.set_output_unknown_rank(0, context.dtype(0));
  if (input == nullptr) return;
  if (const auto axes = context.constant_integers(1)) {
    context.set_output(0, context.dtype(0), unsqueeze_dims(*input, *axes));
  } else if (const auto count = known_length(context, 1)) {
    context.set_output(0, context.dtype(0),
                       unknown_dims(base::checked_add(static_cast<std::int64_t>(input->size()), *count)));
  }
}

}  // namespace

Shape resolve_reshape(const Shape& input, std::span<const std::int64_t> request, bool allow_zero) {
  Shape shape(request.begin(), request.end());
  std::optional<std::size_t> inferred;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      require(i < input.size(), ErrorKind::invalid_model,
              "0 in the requested shape {} at axis {}, but the input has rank {}", text_of(shape), i, input.size());
      shape[i] = input[i];
    }
    if (shape[i] == -1) {
      require(!inferred, ErrorKind::invalid_model, "more than one -1 in the requested shape {}",
              text_of(Shape(request.begin(), request.end())));
      inferred = i;
    } else {
      require(shape[i] >= 0, ErrorKind::invalid_model, "dimension {} in the requested shape", shape[i]);
      require(!__builtin_mul_overflow(known, shape[i], &known), ErrorKind::over_budget,
              "requested shape {} has too many elements", text_of(shape));
    }
  }
  const std::int64_t total = element_count(input);
  if (inferred) shape[*inferred] = known == 0 ? 0 : total / known;
  require(element_count(shape) == total, ErrorKind::invalid_model, "cannot reshape {} to {}", text_of(input),
          text_of(Shape(request.begin(), request.end())));
  return shape;
}

ir::Dims flatten_dims(const ir::Dims& input, std::int64_t axis) {
  const std::int64_t rank = static_cast<std::int64_t>(input.size());
  require(axis >= -rank && axis <= rank, ErrorKind::invalid_model, "axis {} is outside [{}, {}] of a tensor of rank {}",
          axis, -rank, rank, rank);
  const auto split = input.begin() + (axis < 0 ? axis + rank : axis);
  return {ir::product(ir::Dims(input.begin(), split)), ir::product(ir::Dims(split, input.end()))};
}

ir::Dims squeeze_dims(const ir::Dims& input, std::span<const std::int64_t> axes) {
  std::vector<bool> removed(input.size(), false);
  for (std::int64_t axis : normalise_axes(axes, static_cast<std::int64_t>(input.size()))) {
    require(input[axis].may_equal(1), ErrorKind::invalid_model, "cannot squeeze axis {} of {}: its dimension is not 1",
            axis, text_of(input));
    removed[axis] = true;
  }
  ir::Dims result;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (!removed[i]) result.push_back(input[i]);
  }
  return result;
}

ir::Dims unsqueeze_dims(const ir::Dims& input, std::span<const std::int64_t> axes) {
  ir::Dims result = unknown_dims(static_cast<std::int64_t>(input.size() + axes.size()));
  std::vector<bool> added(result.size(), false);
  for (std::int64_t axis : normalise_axes(axes, static_cast<std::int64_t>(result.size()))) added[axis] = true;
  auto next = input.begin();
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = added[i] ? ir::Dim(1) : *next++;
  return result;
}

std::vector<std::int64_t> unit_axes(const Shape& shape) {
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

const OpDef reshape{
    .name = "Reshape",
    .since = 21,
    .inputs = {{"data", types::all, "T"}, {"shape", types::i64}},
    .outputs = {{"reshaped", types::all, "T"}},
    .attributes = {{"allowzero", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_reshape,
    .gradient = reshaped_gradient,
    .view = true,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef flatten{
    .name = "Flatten",
    .since = 25,
    .inputs = {{"input", types::all, "T"}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_flatten,
    .gradient = reshaped_gradient,
    .view = true,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef squeeze{
    .name = "Squeeze",
    .since = 25,
    .inputs = {{"data", types::all, "T"}, {"axes", types::i64, "", optional}},
    .outputs = {{"squeezed", types::all, "T"}},
    .infer = infer_squeeze,
    .gradient = reshaped_gradient,
    .view = true,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef unsqueeze{
    .name = "Unsqueeze",
    .since = 25,
    .inputs = {{"data", types::all, "T"}, {"axes", types::i64}},
    .outputs = {{"expanded", types::all, "T"}},
    .infer = infer_unsqueeze,
    .gradient = reshaped_gradient,
    .view = true,
    .traits = {Trait::moves, Trait::rearranges},
};

}  // namespace tessera::ops
