#include "ops/movement/transpose.h"

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Writes `input`, reshaped to `shape`, with its axes permuted to `output`, which may have any shape of equal size.
void permute(const Tensor& input, const Shape& shape, const std::vector<std::int64_t>& permutation, Tensor& output) {
  const std::vector<std::int64_t> own = strides_of(shape);
  std::vector<std::int64_t> strides;
  Shape permuted;
  for (std::int64_t axis : permutation) {
    strides.push_back(own[axis]);
    permuted.push_back(shape[axis]);
  }
  Tensor view = output.reshaped(permuted);
  copy_strided(input, 0, strides, view);
}

}  // namespace

void transpose(KernelContext& context) {
  const Tensor& input = context.input(0);
  permute(input, input.shape(), ops::permutation_of(context, input.rank()), context.output(0));
}

// As ONNX describes both modes of DepthToSpace: reshape, transpose, reshape.
void depth_to_space(KernelContext& context) {
  const Shape& out = context.output(0).shape();
  const Shape& in = context.input(0).shape();
  const std::int64_t block = context.integer("blocksize");
  if (context.text("mode") == "DCR")
    permute(context.input(0), {in[0], block, block, out[1], in[2], in[3]}, {0, 3, 4, 1, 5, 2}, context.output(0));
  else permute(context.input(0), {in[0], out[1], block, block, in[2], in[3]}, {0, 1, 4, 2, 5, 3}, context.output(0));
}

void space_to_depth(KernelContext& context) {
  const Shape& out = context.output(0).shape();
  const Shape& in = context.input(0).shape();
  const std::int64_t block = context.integer("blocksize");
  permute(context.input(0), {in[0], in[1], out[2], block, out[3], block}, {0, 3, 5, 1, 2, 4}, context.output(0));
}

}  // namespace tessera::backends::reference
