#include "ops/convolutions/op_table.h"

#include "ops/convolutions/causal_conv_with_state.h"
#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/col2im.h"
#include "ops/convolutions/conv.h"
#include "ops/convolutions/conv_chain.h"
#include "ops/convolutions/conv_transpose.h"
#include "ops/convolutions/conv_transpose_with_dynamic_pads.h"
#include "ops/convolutions/conv_weight_gradient.h"
#include "ops/convolutions/deform_conv.h"
#include "ops/convolutions/dictionary_conv.h"
#include "ops/convolutions/fused_conv.h"

namespace tessera::ops {

std::span<const OpDef* const> convolution_ops() {
  static constexpr const OpDef* table[] = {
      // causal_conv_with_state
      &causal_conv_with_state,
      // conv
      &conv,
      // conv_transpose
      &conv_transpose,
      // conv_transpose_with_dynamic_pads
      &conv_transpose_with_dynamic_pads,
      // deform_conv
      &deform_conv,
      &deformed_windows,
      &deformed_windows_gradient,
      // channels_last
      &channels_last_conv,
      &channels_last_conv_transpose,
      &channels_last_max_pool,
      &channels_last_average_pool,
      // conv_weight_gradient
      &conv_weight_gradient,
      &channels_last_conv_weight_gradient,
      // conv_chain
      &conv_chain,
      // dictionary_conv
      &dictionary_conv,
      // fused_conv
      &fused_conv,
      // col2im
      &col2im,
  };
  return table;
}

}  // namespace tessera::ops
