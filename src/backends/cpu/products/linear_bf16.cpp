// Linear layer with constant weights; data and weights are rounded to bfloat16 (ops/products/rounded_product.h).
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/windows/window_product.h"

namespace tessera::backends::cpu {

std::string reject_linear_bf16(const ops::NodeView& view) {
  return reject_operands_bf16(view);
}

KernelPointer make_linear_bf16(const ops::NodeView& view, WeightStore& weights) {
  return make_window_product_bf16(view, weights,
                                  linear_layer(view.output(0).shape, view.input(1).shape, view.integer("transB") != 0));
}

}  // namespace tessera::backends::cpu
