#include "backends/cpu/movement/kernel_table.h"

#include "backends/cpu/movement/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> movement_kernels() {
  static const KernelEntry table[] = {
      // block_gather
      {.op = "tessera::BlockGather", .name = "cpu_block_gather", .function = block_gather},
      // concat
      {.op = "Concat", .name = "cpu_concat", .reject = reject_unless_bytes, .function = concat},
      {.op = "Split", .name = "cpu_split", .reject = reject_unless_bytes, .function = split},
      // expand
      {.op = "Expand", .name = "cpu_expand", .reject = reject_unless_bytes, .create = make_expand},
      {.op = "Tile", .name = "cpu_tile", .reject = reject_unless_bytes, .create = make_tile},
      // gather
      {.op = "Gather", .name = "cpu_gather", .reject = reject_gather, .create = make_gather},
      {.op = "GatherElements",
       .name = "cpu_gather_elements",
       .reject = reject_gather_elements,
       .function = gather_elements},
      // pad
      {.op = "Pad", .name = "cpu_pad", .reject = reject_pad, .create = make_pad},
      // resize
      {.op = "Resize", .name = "cpu_resize", .reject = reject_resize, .create = make_resize},
      // resize_gradient
      {.op = "tessera::ResizeGradient",
       .name = "cpu_resize_gradient",
       .reject = reject_resize_gradient,
       .create = make_resize_gradient},
      // scatter_elements
      {.op = "ScatterElements",
       .name = "cpu_scatter_elements",
       .reject = reject_scatter_elements,
       .function = scatter_elements,
       .in_place_inputs = 1},
      // scatter_nd
      {.op = "ScatterND",
       .name = "cpu_scatter_nd",
       .reject = reject_scatter_nd,
       .function = scatter_nd,
       .in_place_inputs = 1},
      // scatter_rows
      {.op = "tessera::ScatterRows",
       .name = "cpu_scatter_rows",
       .reject = reject_scatter_rows,
       .function = scatter_rows},
      // sum_rows
      {.op = "tessera::SumRows", .name = "cpu_sum_rows", .reject = reject_sum_rows, .function = sum_rows},
      // slice
      {.op = "Slice", .name = "cpu_slice", .reject = reject_unless_bytes, .create = make_slice},
      // transpose
      {.op = "Transpose", .name = "cpu_transpose", .reject = reject_unless_bytes, .create = make_transpose},
      {.op = "DepthToSpace",
       .name = "cpu_depth_to_space",
       .reject = reject_unless_bytes,
       .create = make_depth_to_space},
      {.op = "SpaceToDepth",
       .name = "cpu_space_to_depth",
       .reject = reject_unless_bytes,
       .create = make_space_to_depth},
  };
  return table;
}

}  // namespace tessera::backends::cpu
