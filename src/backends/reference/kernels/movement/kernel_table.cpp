#include "backends/reference/kernels/movement/kernel_table.h"

#include "backends/reference/kernels/movement/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> movement_kernels() {
  static const KernelEntry table[] = {
      // block_gather
      {.op = "tessera::BlockGather", .name = "reference_block_gather", .function = block_gather},
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
      // pad
      {.op = "Pad", .name = "reference_pad", .function = pad},
      {.op = "CenterCropPad", .name = "reference_center_crop_pad", .function = center_crop_pad},
      // slice
      {.op = "Slice", .name = "reference_slice", .function = slice},
      // trilu
      {.op = "Trilu", .name = "reference_trilu", .function = trilu},
      // reverse_sequence
      {.op = "ReverseSequence", .name = "reference_reverse_sequence", .function = reverse_sequence},
      // scatter
      {.op = "ScatterElements", .name = "reference_scatter_elements", .function = scatter_elements},
      {.op = "ScatterND", .name = "reference_scatter_nd", .function = scatter_nd},
      {.op = "TensorScatter", .name = "reference_tensor_scatter", .function = tensor_scatter},
      {.op = "tessera::ScatterRows", .name = "reference_scatter_rows", .function = scatter_rows},
      {.op = "tessera::SumRows", .name = "reference_sum_rows", .function = sum_rows},
      // transpose
      {.op = "Transpose", .name = "reference_transpose", .function = transpose},
      {.op = "DepthToSpace", .name = "reference_depth_to_space", .function = depth_to_space},
      {.op = "SpaceToDepth", .name = "reference_space_to_depth", .function = space_to_depth},
      // reshape
      {.op = "Reshape", .name = "reference_reshape", .function = reshape},
      {.op = "Flatten", .name = "reference_copy", .function = copy_bytes},
      {.op = "Squeeze", .name = "reference_squeeze", .function = squeeze},
      {.op = "Unsqueeze", .name = "reference_unsqueeze", .function = unsqueeze},
      {.op = "tessera::After", .name = "reference_copy", .function = copy_bytes},
  };
  return table;
}

}  // namespace tessera::backends::reference
