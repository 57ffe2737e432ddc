#include "ops/core/check_operand.h"

#include <limits>

#include "ops/core/text_of.h"

namespace tessera::ops {

void check_operand(const InferContext& context, std::size_t i, const ir::Dims& expected) {
  if (!context.has_input(i) || context.dims(i) == nullptr) return;
  const ir::Dims& dims = *context.dims(i);
  bool fits = dims.size() == expected.size();
  for (std::size_t axis = 0; fits && axis < dims.size(); ++axis) fits = dims[axis].may_equal(expected[axis]);
  context.check(fits, "'{}' has shape {}, expected {}", context.op().inputs[i].name, text_of(dims), text_of(expected));
}

ir::Dims dims_of_rank(const InferContext& context, std::size_t i, std::size_t rank) {
  const ir::Dims* dims = context.dims(i);
  if (dims == nullptr) return ir::Dims(rank);
  context.check(dims->size() == rank, "'{}' has shape {}, expected rank {}", context.op().inputs[i].name,
                text_of(*dims), rank);
  return *dims;
}

std::int64_t head_count(const InferContext& context, std::string_view attribute) {
  const std::int64_t count = context.integer(attribute);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  context.check(count >= 1 && count <= kMost, "{} is {}, expected 1 to {}", attribute, count, kMost);
  return count;
}

ir::Dim head_size_of(const InferContext& context, const ir::Dim& hidden, std::int64_t heads, std::string_view name) {
  if (!hidden.is_known()) return {};
  context.check(hidden.value() % heads == 0, "the hidden size {} of '{}' does not divide into {} heads", hidden.value(),
                name, heads);
  return hidden.value() / heads;
}

}  // namespace tessera::ops
