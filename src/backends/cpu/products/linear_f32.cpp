// Linear layer in float32 with bias, addend and activation: a blocked product with packed weights, or an indirect
// product.
#include "backends/cpu/products/linear_f32.h"

#include <limits>

#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/windows/window_product.h"

namespace tessera::backends::cpu {
namespace {

// `transposed`: the weights are [outputs, inputs, ...].
GemmShape shape_of(const ops::NodeView& view, bool transposed) {
  const Shape &w = view.input(1).shape, &y = view.output(0).shape;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < y.size(); ++i) rows *= y[i];
  return {rows, y.back(), w[transposed ? 1 : 0]};
}

class Linear final : public Kernel {
 public:
  Linear(const ops::NodeView& view, WeightStore& store, bool transposed)
      : gemm_(shape_of(view, transposed), false, view.constant(1) != nullptr),
        transposed_(transposed),
        activation_(plan_activation(view)) {
    const auto [m, n, k] = gemm_.shape();
    if (const Tensor* weights = view.constant(1))
      weights_ = gemm_f32_packed_right(store, *weights, weights_at(nullptr), k, n, 1, k * n,
                                       transposed ? "transposed" : "plain");
  }

  void run(KernelContext& context) const override {
    const auto [m, n, k] = gemm_.shape();
    float* y = context.output(0).mutable_data<float>();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const bool clips = activation_.low != -kInfinity || activation_.high != kInfinity;
    Epilogue epilogue{
        .activation = clips ? Activation::clip : Activation::none, .low = activation_.low, .high = activation_.high};
    if (activation_.after.function != nullptr) epilogue.after = &activation_.after;
    if (context.has_input(2)) epilogue.bias = context.input(2).data<float>();
    if (context.has_input(3)) {
      epilogue.addend = context.input(3).data<float>();
      epilogue.addend_row_stride = n;
      epilogue.addend_column_stride = 1;
    }
    const GemmOperand left = GemmOperand::strided(context.input(0).data<float>(), k, 1);
    const GemmOperand right = weights_ != nullptr
                                  ? GemmOperand::prepacked(reinterpret_cast<const float*>(weights_->data.get()))
                                  : weights_at(context.input(1).data<float>());
    gemm_f32(context, gemm_, left, right, y, n, epilogue);
  }

 private:
  GemmOperand weights_at(const float* data) const {
    return transposed_ ? GemmOperand::strided(data, 1, gemm_.shape().k)
                       : GemmOperand::strided(data, gemm_.shape().n, 1);
  }

  GemmF32 gemm_;
  bool transposed_;
  ActivationPlan activation_;
  std::shared_ptr<const PackedWeights> weights_;  // null: not constant, read where they are
};

}  // namespace

std::string reject_linear_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (view.has_attribute("precision")) return "asks for bf16";
  return reject_activation(view);
}

KernelPointer make_packed_linear_f32(const ops::NodeView& view, WeightStore& weights, bool transposed) {
  return std::make_unique<Linear>(view, weights, transposed);
}

KernelPointer make_linear_f32(const ops::NodeView& view, WeightStore& weights) {
  return make_packed_linear_f32(view, weights, view.integer("transB") != 0);
}

std::string reject_indirect_linear_f32(const ops::NodeView& view) {
  return reject_linear_f32(view);
}

KernelPointer make_indirect_linear_f32(const ops::NodeView& view, WeightStore& weights) {
  const bool transposed = view.integer("transB") != 0;
  return make_window_product_f32(view, weights, linear_layer(view.output(0).shape, view.input(1).shape, transposed),
                                 transposed ? "indirect_linear_v1:transposed" : "indirect_linear_v1:plain");
}

}  // namespace tessera::backends::cpu
