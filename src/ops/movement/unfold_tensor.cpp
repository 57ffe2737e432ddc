#include "ops/movement/unfold_tensor.h"

#include "base/error.h"
#include "ops/core/builder.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::ValueId;

constexpr std::int64_t kMostPlaces = std::int64_t{1} << 24;  // that the slices may name: a table of 128 MiB

std::int64_t slices_of(std::int64_t length, std::int64_t size, std::int64_t step) {
  return (length - size) / step + 1;
}

void infer_unfold_tensor(InferContext& context) {
  const std::int64_t size = context.integer("size"), step = context.integer("step");
  context.check(size >= 1 && step >= 1, "size is {} and step is {}, expected at least 1", size, step);
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const std::int64_t axis = normalise_axis(context.integer("dim"), static_cast<std::int64_t>(dims->size()));
  ir::Dims result = *dims;
  ir::Dim& length = result[static_cast<std::size_t>(axis)];
  context.check(!length.is_known() || length.value() >= size, "slices of {} from axis {} of {}", size, axis,
                to_string(*dims));
  length = length.is_known() ? ir::Dim(slices_of(length.value(), size, step)) : ir::Dim();
  result.emplace_back(size);
  context.set_output(0, context.dtype(0), std::move(result));
}

std::optional<std::vector<ValueId>> decompose_unfold_tensor(GraphBuilder& builder, const AttributeReader& reader,
                                                            std::span<const ValueId> inputs) {
  const ir::Dims* dims = builder.dims(inputs[0]);
  if (dims == nullptr) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(dims->size()), axis = normalise_axis(reader.integer("dim"), rank);
  const ir::Dim length = (*dims)[static_cast<std::size_t>(axis)];
  if (!length.is_known()) return std::nullopt;
  const std::int64_t size = reader.integer("size"), step = reader.integer("step"),
                     slices = slices_of(length.value(), size, step);
  require(slices <= kMostPlaces / size, ErrorKind::over_budget,
          "UnfoldTensor takes {} slices of {} elements, more than {} elements together", slices, size, kMostPlaces);
  std::vector<std::int64_t> places, order;
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    for (std::int64_t k = 0; k < size; ++k) places.push_back(slice * step + k);
  }
  const ValueId indices =
      builder.constant(Tensor::from<std::int64_t>({slices, size}, std::span<const std::int64_t>(places)));
  const ValueId taken = builder.add("Gather", {inputs[0], indices}, {{"axis", axis}});
  for (std::int64_t i = 0; i <= rank; ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  order.push_back(axis + 1);
  return std::vector{builder.add("Transpose", {taken}, {{"perm", std::move(order)}})};
}

}  // namespace

// y[.., s, .., k] = x[.., s · step + k, ..], with s on axis `dim` and k on a new last axis of length `size`.
const OpDef unfold_tensor{
    .name = "com.microsoft::UnfoldTensor",
    .since = 1,
    .inputs = {{"input", types::all, "T"}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"dim", AttributeKind::integer, ir::Attribute(std::int64_t{-1})},
                   {"size", AttributeKind::integer, std::nullopt, true},
                   {"step", AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_unfold_tensor,
    .decompose = decompose_unfold_tensor,
};

}  // namespace tessera::ops
