#include "ops/rows/select.h"

#include <cmath>

#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_compress(InferContext& context) {
  known_length(context, 1);
  const ir::Dims* dims = context.dims(0);
  if (!context.has_attribute("axis")) return context.set_output(0, context.dtype(0), ir::Dims(1));
  if (dims == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  ir::Dims result = *dims;
  result[normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()))] = ir::Dim();
  context.set_output(0, context.dtype(0), std::move(result));
}

void infer_non_zero(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  context.set_output(
      0, DType::i64,
      ir::Dims{dims == nullptr ? ir::Dim() : ir::Dim(static_cast<std::int64_t>(dims->size())), ir::Dim()});
}

void infer_unique(InferContext& context) {
  const std::int64_t sorted = context.integer("sorted");
  context.check(sorted == 0 || sorted == 1, "sorted is {}, expected 0 or 1", sorted);
  const ir::Dims* dims = context.dims(0);
  ir::Dim positions;
  if (!context.has_attribute("axis")) {
    context.set_output(0, context.dtype(0), ir::Dims(1));
    if (dims != nullptr) positions = ir::product(*dims);
  } else if (dims == nullptr) {
    context.set_output_unknown_rank(0, context.dtype(0));
  } else {
    const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()));
    ir::Dims result = *dims;
    positions = result[axis];
    result[axis] = ir::Dim();
    context.set_output(0, context.dtype(0), std::move(result));
  }
  context.set_output(1, DType::i64, ir::Dims(1));
  context.set_output(2, DType::i64, {positions});
  context.set_output(3, DType::i64, ir::Dims(1));
}

void infer_top_k(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) {
    context.set_output_unknown_rank(0, context.dtype(0));
    context.set_output_unknown_rank(1, DType::i64);
    return;
  }
  ir::Dims result = *dims;
  ir::Dim& dim = result[normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()))];
  if (const Tensor* constant = context.constant(1)) {
    const std::int64_t k = single_integer(*constant, "K");
    context.check(k >= 0 && (!dim.is_known() || k <= dim.value()), "K is {}, expected at most the dimension, {}", k,
                  text_of(dim));
    dim = k;
  } else {
    dim = ir::Dim();
  }
  context.set_output(0, context.dtype(0), result);
  context.set_output(1, DType::i64, std::move(result));
}

// One comparison per element and level of a sort.
double operations_top_k(const NodeView& view) {
  const double elements = static_cast<double>(view.input(0).elements());
  const double k = static_cast<double>(view.output(0).elements());
  return elements * std::max(1.0, std::log2(std::min(elements, k) + 1));
}

// Elements that were left out have a zero gradient.
void compress_gradient(GradientContext& c) {
  const Term x = c.input(0);
  const Term taken = c.input(1).apply("NonZero").combine("Reshape", {x.integers({-1})});
  if (!c.has_attribute("axis"))
    return c.set(0, scatter_rows(c.gradient(), taken, 0, x.apply("Size").unsqueeze({0})).reshape_like(x));
  const std::int64_t axis = normalise_axis(c.integer("axis"), x.rank());
  c.set(0, scatter_rows(c.gradient(), taken, axis, x.size_of(axis)).of_shape(x));
}

// The gradient of each selected value goes to its position.
void top_k_gradient(GradientContext& c) {
  const Term x = c.input(0);
  const Term indices =
      c.has_output(1)
          ? c.output(1)
          : Term(c.builder(), c.builder().add_multi("TopK", {x.id(), c.input(1).id()}, 2, c.node().attributes)[1]);
  c.set(0, x.zeros().combine("ScatterElements", {indices, c.gradient()}, {{"axis", c.integer("axis")}}));
}

}  // namespace

const OpDef compress{
    .name = "Compress",
    .since = 11,
    .inputs = {{"input", types::all, "T"}, {"condition", types::boolean}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer}},
    .infer = infer_compress,
    .gradient = compress_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef non_zero{
    .name = "NonZero",
    .since = 13,
    .inputs = {{"X", types::numbers | types::boolean | types::text | types::complex}},
    .outputs = {{"Y", types::i64}},
    .infer = infer_non_zero,
    .traits = {Trait::discontinuous},
};

const OpDef unique{
    .name = "Unique",
    .since = 11,
    .inputs = {{"X", types::numbers | types::boolean | types::text | types::complex, "T"}},
    .outputs = {{"Y", types::numbers | types::boolean | types::text | types::complex, "T"},
                {"indices", types::i64, "", optional},
                {"inverse_indices", types::i64, "", optional},
                {"counts", types::i64, "", optional}},
    .attributes = {{"axis", ir::AttributeKind::integer},
                   {"sorted", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_unique,
    .traits = {Trait::discontinuous},
};

const OpDef top_k{
    .name = "TopK",
    .since = 24,
    .inputs = {{"X", types::numbers, "T"}, {"K", types::i64}},
    .outputs = {{"Values", types::numbers, "T"}, {"Indices", types::i64}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-1})},
                   {"largest", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                   {"sorted", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_top_k,
    .operations = operations_top_k,
    .gradient = top_k_gradient,
    .traits = {Trait::discontinuous},
};

}  // namespace tessera::ops
