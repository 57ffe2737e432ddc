// Linear layer of 8-bit data with constant int8 weights (ops/quantised/quantised_layers.h).
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/result_s8.h"
#include "backends/cpu/products/windows/window_product.h"
#include "ops/quantised/quantised_layers.h"

namespace tessera::backends::cpu {

std::string reject_linear_s8(const ops::NodeView& view) {
  return reject_operands_s8(view);
}

KernelPointer make_linear_s8(const ops::NodeView& view, WeightStore& weights) {
  return make_window_product_s8(view, weights,
                                linear_layer(view.input(ops::QuantisedLayerInputs::data).shape,
                                             view.input(ops::QuantisedLayerInputs::weights).shape, false));
}

}  // namespace tessera::backends::cpu
