#include "ops/movement/block_gather.h"

#include "ops/products/block_linear.h"

namespace tessera::ops {
namespace {

void infer_block_gather(InferContext& context) {
  const BlockWeights weights = block_weights_of(context);
  check_block_weights(context, 0, weights);
  const ir::Dims* indices = context.dims(1);
  if (indices == nullptr) return context.set_output_unknown_rank(0, DType::f32);
  ir::Dims result = *indices;
  result.push_back(weights.k);
  context.set_output(0, DType::f32, std::move(result));
}

// The bytes of the indices and of the rows that they select.
double block_gather_bytes_read(const NodeView& view) {
  const auto count = static_cast<double>(view.input(1).elements());
  return count * static_cast<double>(block_weights_of(view).row_bytes) + static_cast<double>(view.input(1).bytes());
}

}  // namespace

const OpDef block_gather{
    .name = "tessera::BlockGather",
    .since = 1,
    .inputs = {{"W", {DType::u8}}, {"indices", types::index}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes = block_weight_attributes(),
    .infer = infer_block_gather,
    .operations = operations_per_output<2>,
    .bytes_read = block_gather_bytes_read,
};

}  // namespace tessera::ops
