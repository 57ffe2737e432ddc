#include "ops/movement/op_table.h"

#include "ops/movement/block_gather.h"
#include "ops/movement/concat.h"
#include "ops/movement/expand.h"
#include "ops/movement/gather.h"
#include "ops/movement/pad.h"
#include "ops/movement/reshape.h"
#include "ops/movement/reverse_sequence.h"
#include "ops/movement/scatter.h"
#include "ops/movement/scatter_rows.h"
#include "ops/movement/slice.h"
#include "ops/movement/sum_rows.h"
#include "ops/movement/transpose.h"
#include "ops/movement/trilu.h"
#include "ops/movement/unfold_tensor.h"

namespace tessera::ops {

std::span<const OpDef* const> movement_ops() {
  static constexpr const OpDef* table[] = {
      // unfold_tensor
      &unfold_tensor,
      // block_gather
      &block_gather,
      // concat
      &concat,
      &split,
      // expand
      &expand,
      &tile,
      // gather
      &gather,
      &gather_elements,
      &gather_nd,
      // pad
      &pad,
      &center_crop_pad,
      // reshape
      &reshape,
      &flatten,
      &squeeze,
      &unsqueeze,
      // slice
      &slice,
      // trilu
      &trilu,
      // reverse_sequence
      &reverse_sequence,
      // scatter
      &scatter_elements,
      &scatter_nd,
      &tensor_scatter,
      // scatter_rows
      &scatter_rows_op,
      // sum_rows
      &sum_rows,
      // transpose
      &transpose,
      &depth_to_space,
      &space_to_depth,
  };
  return table;
}

}  // namespace tessera::ops
