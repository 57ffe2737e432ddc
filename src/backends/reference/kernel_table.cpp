#include "backends/reference/kernels/kernels.h"
#include "backends/reference/reference_device.h"

namespace tessera::backends {

using namespace reference;

std::span<const KernelEntry> reference_kernel_table() {
  static const KernelEntry table[] = {
      // element_wise_unary
      {.op = "Relu", .name = "reference_relu", .function = relu},
      {.op = "Sigmoid", .name = "reference_sigmoid", .function = sigmoid},
      // reshape
      {.op = "Reshape", .name = "reference_reshape", .function = reshape},
      {.op = "Flatten", .name = "reference_copy", .function = copy_bytes},
      {.op = "Squeeze", .name = "reference_squeeze", .function = squeeze},
      {.op = "Unsqueeze", .name = "reference_unsqueeze", .function = unsqueeze},
      // concat
      {.op = "Concat", .name = "reference_concat", .function = concat},
      {.op = "Split", .name = "reference_split", .function = split},
      // expand
      {.op = "Expand", .name = "reference_expand", .function = expand},
      {.op = "Tile", .name = "reference_tile", .function = tile},
      // gather
      {.op = "Gather", .name = "reference_gather", .function = gather},
      {.op = "GatherElements", .name = "reference_gather_elements", .function = gather_elements},
      {.op = "GatherND", .name = "reference_gather_nd", .function = gather_nd},
      // generate
      {.op = "ConstantOfShape", .name = "reference_constant_of_shape", .function = constant_of_shape},
      {.op = "Range", .name = "reference_range", .function = range},
      {.op = "EyeLike", .name = "reference_eye_like", .function = eye_like},
      {.op = "OneHot", .name = "reference_one_hot", .function = one_hot},
      // pad
      {.op = "Pad", .name = "reference_pad", .function = pad},
      {.op = "CenterCropPad", .name = "reference_center_crop_pad", .function = center_crop_pad},
      // shape_of
      {.op = "Shape", .name = "reference_shape_of", .function = shape_of},
      {.op = "Size", .name = "reference_size_of", .function = size_of},
      // slice
      {.op = "Slice", .name = "reference_slice", .function = slice},
      // transpose
      {.op = "Transpose", .name = "reference_transpose", .function = transpose},
      {.op = "DepthToSpace", .name = "reference_depth_to_space", .function = depth_to_space},
      {.op = "SpaceToDepth", .name = "reference_space_to_depth", .function = space_to_depth},
      // softmax
      {.op = "Softmax", .name = "reference_softmax", .function = softmax},
  };
  return table;
}

}  // namespace tessera::backends
