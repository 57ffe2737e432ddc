#include "ops/movement/scatter_rows.h"

#include "base/error.h"
#include "ops/core/gradient.h"

namespace tessera::ops {
namespace {

// The axis of the positions in the result, whose rank is that of the rows with one axis in place of those of the
// indices.
std::int64_t axis_of_scatter_rows(const AttributeReader& reader, std::size_t rows_rank, std::size_t index_rank) {
  require(rows_rank >= index_rank, ErrorKind::invalid_model, "rows have {} axes and their indices {}", rows_rank,
          index_rank);
  return normalise_axis(reader.integer("axis"), static_cast<std::int64_t>(rows_rank - index_rank) + 1);
}

void infer_scatter_rows(InferContext& context) {
  const ir::Dims* rows = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  const ir::Dims* size = context.dims(2);
  context.check(size == nullptr || (size->size() == 1 && (*size)[0].may_equal(1)), "size is {}, expected one number",
                size != nullptr ? to_string(*size) : "");
  if (rows == nullptr || indices == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const std::int64_t axis = axis_of_scatter_rows(context, rows->size(), indices->size());
  ir::Dims result(rows->begin(), rows->begin() + axis);
  const auto known = context.constant_integers(2);
  if (known) context.check((*known)[0] >= 0, "size is {}", (*known)[0]);
  result.push_back(known ? ir::Dim((*known)[0]) : ir::Dim());
  const auto rest = rows->begin() + axis + static_cast<std::ptrdiff_t>(indices->size());
  for (std::size_t i = 0; i < indices->size(); ++i) {
    const ir::Dim &own = (*rows)[static_cast<std::size_t>(axis) + i], &wanted = (*indices)[i];
    context.check(own.may_equal(wanted), "rows {} do not have the axes of the indices {} at {}", to_string(*rows),
                  to_string(*indices), axis);
  }
  result.insert(result.end(), rest, rows->end());
  context.set_output(0, context.dtype(0), std::move(result));
}

}  // namespace

ScatterRowsShape scatter_rows_shape(const AttributeReader& reader, const Shape& rows, const Shape& indices,
                                    std::int64_t size) {
  const auto axis = static_cast<std::size_t>(axis_of_scatter_rows(reader, rows.size(), indices.size()));
  require(size >= 0, ErrorKind::failed, "rows are scattered to {} places", size);
  ScatterRowsShape shape;
  shape.size = size;
  for (std::size_t i = 0; i < rows.size(); ++i)
    (i < axis ? shape.outer : i < axis + indices.size() ? shape.count : shape.inner) *= rows[i];
  return shape;
}

Shape scatter_rows_result(const AttributeReader& reader, const Shape& rows, const Shape& indices, std::int64_t size) {
  const std::int64_t axis = axis_of_scatter_rows(reader, rows.size(), indices.size());
  Shape result(rows.begin(), rows.begin() + axis);
  result.push_back(size);
  result.insert(result.end(), rows.begin() + axis + static_cast<std::ptrdiff_t>(indices.size()), rows.end());
  return result;
}

// y[…, indices[k], …] += rows[…, k, …], where k are the axes of the indices, which may count from the end. Rows of one
// place are added in the order of the indices.
const OpDef scatter_rows_op{
    .name = "tessera::ScatterRows",
    .since = 1,
    .inputs = {{"rows", types::floats, "T"}, {"indices", types::index}, {"size", types::i64}},
    .outputs = {{"output", types::floats, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_scatter_rows,
    .operations = operations_per_input<1>,
    .gradient =
        [](GradientContext& c) {
          c.set(0, c.gradient().combine("Gather", {c.input(1)}, c.node().attributes).of_shape(c.input(0)));
        },
};

}  // namespace tessera::ops
