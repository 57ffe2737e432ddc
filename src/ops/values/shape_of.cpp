#include "ops/values/shape_of.h"

#include <algorithm>

namespace tessera::ops {
namespace {

void infer_of_shape(InferContext& context) {
  ir::Dim length;
  if (const ir::Dims* dims = context.dims(0)) {
    const DimRange range = shape_range(context, static_cast<std::int64_t>(dims->size()));
    length = range.last - range.first;
  }
  context.set_output(0, DType::i64, {length});
}

void infer_size(InferContext& context) {
  context.set_output(0, DType::i64, ir::Dims{});
}

double nothing_read_shape_of(const NodeView&) {
  return 0;
}

}  // namespace

DimRange shape_range(const AttributeReader& reader, std::int64_t rank) {
  const auto clamp = [rank](std::int64_t position) {
    return std::clamp<std::int64_t>(position < 0 ? position + rank : position, 0, rank);
  };
  const std::int64_t first = clamp(reader.integer("start"));
  const std::int64_t last = reader.has_attribute("end") ? clamp(reader.integer("end")) : rank;
  return {first, std::max(first, last)};
}

const OpDef shape_of{
    .name = "Shape",
    .since = 25,
    .inputs = {{"data", types::all}},
    .outputs = {{"shape", types::i64}},
    .attributes = {{"start", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"end", ir::AttributeKind::integer}},
    .infer = infer_of_shape,
    .bytes_read = nothing_read_shape_of,
    .traits = {Trait::reads_shapes},
};

const OpDef size_of{
    .name = "Size",
    .since = 25,
    .inputs = {{"data", types::all}},
    .outputs = {{"size", types::i64}},
    .infer = infer_size,
    .bytes_read = nothing_read_shape_of,
    .traits = {Trait::reads_shapes},
};

}  // namespace tessera::ops
