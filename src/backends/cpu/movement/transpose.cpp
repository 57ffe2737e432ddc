#include "ops/movement/transpose.h"

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "backends/cpu/movement/strided_copy.h"

namespace tessera::backends::cpu {
namespace {

// Creates the kernel that permutes the axes of `input`, reshaped to `shape`.
std::unique_ptr<Kernel> make_permutation(const ops::NodeView& view, const Shape& shape,
                                         const std::vector<std::int64_t>& permutation) {
  const std::vector<std::int64_t> own = row_major_strides(shape);
  Shape dims;
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : permutation) {
    dims.push_back(shape[static_cast<std::size_t>(axis)]);
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  return std::make_unique<MovementKernel>(StridedCopy(view.input(0).dtype, dims, strides, 0));
}

}  // namespace

std::unique_ptr<Kernel> make_transpose(const ops::NodeView& view, WeightStore&) {
  const Shape& shape = view.input(0).shape;
  return make_permutation(view, shape, ops::permutation_of(view, static_cast<std::int64_t>(shape.size())));
}

// Both modes are a reshape, a transposition and a reshape (ONNX DepthToSpace).
std::unique_ptr<Kernel> make_depth_to_space(const ops::NodeView& view, WeightStore&) {
  const Shape &in = view.input(0).shape, &out = view.output(0).shape;
  const std::int64_t block = view.integer("blocksize");
  if (view.text("mode") == "DCR")
    return make_permutation(view, {in[0], block, block, out[1], in[2], in[3]}, {0, 3, 4, 1, 5, 2});
  return make_permutation(view, {in[0], out[1], block, block, in[2], in[3]}, {0, 1, 4, 2, 5, 3});
}

std::unique_ptr<Kernel> make_space_to_depth(const ops::NodeView& view, WeightStore&) {
  const Shape &in = view.input(0).shape, &out = view.output(0).shape;
  const std::int64_t block = view.integer("blocksize");
  return make_permutation(view, {in[0], in[1], out[2], block, out[3], block}, {0, 3, 5, 1, 2, 4});
}

}  // namespace tessera::backends::cpu
