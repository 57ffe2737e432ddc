#include "ops/quantised/op_table.h"

#include "ops/quantised/conv_integer.h"
#include "ops/quantised/gather_block_quantized.h"
#include "ops/quantised/matmul_n_bits.h"
#include "ops/quantised/q_linear.h"
#include "ops/quantised/quantisation.h"
#include "ops/quantised/quantised_layers.h"
#include "ops/quantised/quantised_product.h"

namespace tessera::ops {

std::span<const OpDef* const> quantised_ops() {
  static constexpr const OpDef* table[] = {
      // quantisation
      &quantize_linear,
      &dequantize_linear,
      &dynamic_quantize_linear,
      // conv_integer
      &conv_integer,
      &q_linear_conv,
      // quantised_layers
      &quantised_conv,
      &quantised_linear,
      // gather_block_quantized
      &gather_block_quantized,
      // matmul_n_bits
      &matmul_n_bits,
      // q_linear
      &q_linear_add,
      &q_linear_mul,
      &q_linear_concat,
      &q_linear_average_pool,
      &q_linear_global_average_pool,
      &q_linear_leaky_relu,
      &q_linear_sigmoid,
      &q_linear_softmax,
      &q_linear_where,
      &q_linear_reduce_mean,
      // quantised_product
      &q_gemm,
      &matmul_integer_to_float,
      &dynamic_quantize_matmul,
      &matmul_integer_16,
  };
  return table;
}

}  // namespace tessera::ops
