#include "ops/movement/concat.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_concat(InferContext& context) {
  std::vector<ir::Dims> inputs;
  bool complete = true;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const ir::Dims* dims = context.dims(i);
    if (dims != nullptr) inputs.push_back(*dims);
    else complete = false;
  }
  if (inputs.empty()) return context.set_output_unknown_rank(0, context.dtype(0));
  const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(inputs[0].size()));
  ir::Dims result = concat_dims(inputs, axis);
  if (!complete) result[axis] = ir::Dim();
  context.set_output(0, context.dtype(0), std::move(result));
}

std::vector<std::int64_t> split_sizes(const InferContext& context, std::int64_t dim, std::int64_t count) {
  const auto sizes = context.constant_integers(1);
  if (!sizes) return split_evenly(dim, count);
  context.check(static_cast<std::int64_t>(sizes->size()) == count, "{} sizes for {} outputs", sizes->size(), count);
  check_split(*sizes, dim);
  return *sizes;
}

void infer_concat_split(InferContext& context) {
  const std::int64_t count = static_cast<std::int64_t>(context.output_count());
  context.check(!context.has_attribute("num_outputs") || context.integer("num_outputs") == count,
                "num_outputs does not equal the {} outputs", count);
  context.check(!context.has_attribute("num_outputs") || !context.has_input(1),
                "both num_outputs and input 'split' are given");
  const ir::Dims* input = context.dims(0);
  if (input == nullptr) {
    for (std::int64_t i = 0; i < count; ++i) context.set_output_unknown_rank(i, context.dtype(0));
    return;
  }
  const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(input->size()));
  std::vector<ir::Dim> parts(count);
  if ((*input)[axis].is_known() && (!context.has_input(1) || context.constant(1) != nullptr)) {
    const std::vector<std::int64_t> sizes = split_sizes(context, (*input)[axis].value(), count);
    parts.assign(sizes.begin(), sizes.end());
  } else if (const auto sizes = context.constant_integers(1)) {
    context.check(static_cast<std::int64_t>(sizes->size()) == count, "{} sizes for {} outputs", sizes->size(), count);
    for (std::int64_t size : *sizes) context.check(size >= 0, "a part of size {}", size);
    parts.assign(sizes->begin(), sizes->end());
  }
  for (std::int64_t i = 0; i < count; ++i) {
    ir::Dims dims = *input;
    dims[axis] = parts[i];
    context.set_output(i, context.dtype(0), std::move(dims));
  }
}

void concat_gradient(GradientContext& c) {
  const std::int64_t axis = normalise_axis(c.integer("axis"), c.input(0).rank());
  std::vector<Term> sizes;
  for (std::size_t i = 0; i < c.input_count(); ++i) sizes.push_back(c.input(i).size_of(axis));
  const std::vector<ir::ValueId> parts =
      c.builder().add_multi("Split", {c.gradient().id(), join(sizes).id()}, c.input_count(), {{"axis", axis}});
  for (std::size_t i = 0; i < parts.size(); ++i) c.set(i, {c.builder(), parts[i]});
}

void split_gradient(GradientContext& c) {
  const std::int64_t axis = normalise_axis(c.integer("axis"), c.input(0).rank());
  // Splits again to get the shapes of parts that the node does not return.
  std::vector<ir::ValueId> parts(c.node().outputs);
  if (std::any_of(parts.begin(), parts.end(), [](ir::ValueId part) { return !part.valid(); }))
    parts = c.builder().add_multi("Split", c.node().inputs, parts.size(), c.node().attributes);
  std::vector<Term> gradients;
  for (std::size_t i = 0; i < parts.size(); ++i)
    gradients.push_back(c.has_gradient(i) ? c.gradient(i) : Term(c.builder(), parts[i]).zeros());
  c.set(0, gradients[0].combine("Concat", {gradients.begin() + 1, gradients.end()}, {{"axis", axis}}));
}

}  // namespace

ir::Dims concat_dims(std::span<const ir::Dims> inputs, std::int64_t axis) {
  ir::Dims result = inputs[0];
  for (const ir::Dims& next : inputs.subspan(1)) {
    require(next.size() == result.size(), ErrorKind::invalid_model, "cannot join {} and {}: their ranks differ",
            text_of(inputs[0]), text_of(next));
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (static_cast<std::int64_t>(i) == axis) {
        result[i] = result[i] + next[i];
        continue;
      }
      require(result[i].may_equal(next[i]), ErrorKind::invalid_model,
              "cannot join {} and {} along axis {}: axis {} differs", text_of(inputs[0]), text_of(next), axis, i);
      result[i] = same_dim(result[i], next[i]);
    }
  }
  return result;
}

std::vector<std::int64_t> split_evenly(std::int64_t dim, std::int64_t count) {
  require(count > 0, ErrorKind::invalid_model, "cannot split into {} parts", count);
  const std::int64_t part = base::ceil_divide(dim, count);
  const std::int64_t last = dim - part * (count - 1);
  require(last >= 0, ErrorKind::invalid_model, "cannot split a dimension of {} into {} parts of {}", dim, count, part);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), part);
  sizes.back() = last;
  return sizes;
}

void check_split(std::span<const std::int64_t> sizes, std::int64_t dim) {
  std::int64_t total = 0;
  for (std::int64_t size : sizes) {
    require(size >= 0, ErrorKind::invalid_model, "a part of size {}", size);
    total = base::checked_add(total, size);
  }
  require(total == dim, ErrorKind::invalid_model, "the parts add up to {}, but the dimension is {}", total, dim);
}

const OpDef concat{
    .name = "Concat",
    .since = 13,
    .inputs = {{"inputs", types::all, "T", variadic}},
    .outputs = {{"concat_result", types::all, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, std::nullopt, true}},
    .infer = infer_concat,
    .gradient = concat_gradient,
    .traits = {Trait::moves, Trait::keeps_one_operand},
};

const OpDef split{
    .name = "Split",
    .since = 18,
    .inputs = {{"input", types::all, "T"}, {"split", types::i64, "", optional}},
    .outputs = {{"outputs", types::all, "T", variadic}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"num_outputs", ir::AttributeKind::integer}},
    .infer = infer_concat_split,
    .gradient = split_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

}  // namespace tessera::ops
