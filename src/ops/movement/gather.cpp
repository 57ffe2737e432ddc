#include "ops/movement/gather.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_gather(InferContext& context) {
  const ir::Dims* data = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  if (data == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(data->size()));
  if (indices == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  ir::Dims result(data->begin(), data->begin() + axis);
  result.insert(result.end(), indices->begin(), indices->end());
  result.insert(result.end(), data->begin() + axis + 1, data->end());
  context.set_output(0, context.dtype(0), std::move(result));
}

void infer_gather_elements(InferContext& context) {
  const ir::Dims* data = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  if (data != nullptr) normalise_axis(context.integer("axis"), static_cast<std::int64_t>(data->size()));
  if (data != nullptr && indices != nullptr) {
    context.check(data->size() == indices->size(), "data of rank {} and indices of rank {} must have the same rank",
                  data->size(), indices->size());
    const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(data->size()));
    for (std::size_t i = 0; i < data->size(); ++i) {
      context.check(
          static_cast<std::int64_t>(i) == axis || !(*data)[i].is_known() || (*indices)[i].value() <= (*data)[i].value(),
          "indices {} reach beyond data {} at axis {}", text_of(*indices), text_of(*data), i);
    }
  }
  if (indices != nullptr) context.set_output(0, context.dtype(0), *indices);
  else if (data != nullptr) context.set_output(0, context.dtype(0), ir::Dims(data->size()));
  else context.set_output_unknown_rank(0, context.dtype(0));
}

void infer_gather_nd(InferContext& context) {
  const ir::Dims* data = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  if (data == nullptr || indices == nullptr || (!indices->empty() && !indices->back().is_known())) {
    return context.set_output_unknown_rank(0, context.dtype(0));
  }
  context.set_output(0, context.dtype(0), gather_nd_dims(*data, *indices, context.integer("batch_dims")));
}

// The bytes of the indices and of the gathered elements only.
double gather_bytes_read(const NodeView& view) {
  return static_cast<double>(view.output(0).bytes()) + static_cast<double>(view.input(1).bytes());
}

// The gradient of an element of the data is the sum over all places where it was gathered.
void gather_gradient(GradientContext& c) {
  const Term data = c.input(0), indices = c.input(1).cast(DType::i64);
  const std::int64_t axis = normalise_axis(c.integer("axis"), data.rank());
  c.set(0, scatter_rows(c.gradient(), indices, axis, data.size_of(axis)).of_shape(data));
}

void gather_elements_gradient(GradientContext& c) {
  c.set(0, c.input(0).zeros().combine("ScatterElements", {c.input(1), c.gradient()},
                                      {{"axis", c.integer("axis")}, {"reduction", std::string("add")}}));
}

void gather_nd_gradient(GradientContext& c) {
  // Converts to indices without batch axes: each one begins with its position in the batch.
  Term indices = c.input(1);
  const std::int64_t rank = indices.rank();
  const Term zero(c.builder(), c.builder().scalar(0, DType::i64)), one(c.builder(), c.builder().scalar(1, DType::i64));
  std::vector<Term> outer;  // the dimensions of the indices except the last one
  for (std::int64_t i = 0; i + 1 < rank; ++i) outer.push_back(indices.size_of(i));
  outer.push_back(indices.integers({1}));
  for (std::int64_t axis = c.integer("batch_dims"); axis-- > 0;) {
    const Term size = indices.size_of(axis).combine("Reshape", {indices.integers({})});
    const Term places = zero.combine("Range", {size, one}).unsqueeze(axes_but(axis, rank)).expand(join(outer));
    indices = places.combine("Concat", {indices}, {{"axis", std::int64_t{-1}}});
  }
  c.set(0, c.input(0).zeros().combine("ScatterND", {indices, c.gradient()}, {{"reduction", std::string("add")}}));
}

}  // namespace

ir::Dims gather_nd_dims(const ir::Dims& data, const ir::Dims& indices, std::int64_t batch_dims) {
  const std::int64_t rank = static_cast<std::int64_t>(data.size()),
                     index_rank = static_cast<std::int64_t>(indices.size());
  require(rank >= 1 && index_rank >= 1, ErrorKind::invalid_model, "data {} and indices {} must have at least one axis",
          text_of(data), text_of(indices));
  require(batch_dims >= 0 && batch_dims < std::min(rank, index_rank), ErrorKind::invalid_model,
          "batch_dims is {}, with data {} and indices {}", batch_dims, text_of(data), text_of(indices));
  const std::int64_t depth = indices.back().value();
  require(depth >= 1 && depth <= rank - batch_dims, ErrorKind::invalid_model,
          "an index has {} parts, but {} axes of data {} are left to it", depth, rank - batch_dims, text_of(data));
  ir::Dims result(indices.begin(), indices.end() - 1);
  for (std::int64_t i = 0; i < batch_dims; ++i) result[i] = same_dim(data[i], indices[i]);
  result.insert(result.end(), data.begin() + batch_dims + depth, data.end());
  return result;
}

const OpDef gather{
    .name = "Gather",
    .since = 13,
    .inputs = {{"data", types::all, "T"}, {"indices", types::index}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_gather,
    .bytes_read = gather_bytes_read,
    .gradient = gather_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef gather_elements{
    .name = "GatherElements",
    .since = 13,
    .inputs = {{"data", types::all, "T"}, {"indices", types::index}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_gather_elements,
    .bytes_read = gather_bytes_read,
    .gradient = gather_elements_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef gather_nd{
    .name = "GatherND",
    .since = 13,
    .inputs = {{"data", types::all, "T"}, {"indices", types::i64}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"batch_dims", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_gather_nd,
    .bytes_read = gather_bytes_read,
    .gradient = gather_nd_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

}  // namespace tessera::ops
