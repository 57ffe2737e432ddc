#include "ops/movement/sum_rows.h"

namespace tessera::ops {
namespace {

void infer_sum_rows(InferContext& context) {
  const ir::Dims *rows = context.dims(0), *indices = context.dims(1), *size = context.dims(2);
  context.check(size == nullptr || (size->size() == 1 && (*size)[0].may_equal(1)), "size is {}, expected one number",
                size != nullptr ? to_string(*size) : "");
  const auto known = context.constant_integers(2);
  if (known) context.check((*known)[0] >= 0, "size is {}", (*known)[0]);
  const ir::Dim count = indices != nullptr ? ir::product(*indices) : ir::Dim();
  context.set_output(1, DType::i64, {count});
  if (rows == nullptr || indices == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  bool fits = rows->size() >= indices->size();
  for (std::size_t i = 0; fits && i < indices->size(); ++i) fits = (*rows)[i].may_equal((*indices)[i]);
  context.check(fits, "rows {} do not begin with the axes of the indices {}", to_string(*rows), to_string(*indices));
  ir::Dims sums{count};
  sums.insert(sums.end(), rows->begin() + static_cast<std::ptrdiff_t>(indices->size()), rows->end());
  context.set_output(0, context.dtype(0), std::move(sums));
}

}  // namespace

// Takes rows [indices…, row…], indices that may count from the end, and the number of rows of the table. Returns sums
// [count, row…] and places [count], where count is the number of indices. Each place among the indices occurs once, in
// ascending order, with the sum of its rows in the order of the indices; the remaining entries are the place `size` and
// zeros.
const OpDef sum_rows{
    .name = "tessera::SumRows",
    .since = 1,
    .inputs = {{"rows", types::floats, "T"}, {"indices", types::index}, {"size", types::i64}},
    .outputs = {{"sums", types::floats, "T"}, {"places", types::i64, ""}},
    .infer = infer_sum_rows,
    .operations = operations_per_input<1>,
};

}  // namespace tessera::ops
