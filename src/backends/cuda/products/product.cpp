#include "backends/cuda/products/product.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "backends/cuda/constants.h"
#include "backends/cuda/kernels/products/product_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/products/batched_product.h"
#include "backends/cuda/products/product_launch.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::ProductActivation;
using tessera::cuda::ProductParameters;

struct ActivationOfKernels {
  std::string_view name;
  ProductActivation activation;
};
constexpr ActivationOfKernels kActivations[] = {{"", ProductActivation::none},
                                                {"Relu", ProductActivation::relu},
                                                {"Gelu", ProductActivation::gelu},
                                                {"Sigmoid", ProductActivation::sigmoid},
                                                {"Tanh", ProductActivation::tanh}};

std::optional<ProductActivation> activation_of(std::string_view name) {
  const auto* const found = std::ranges::find(kActivations, name, &ActivationOfKernels::name);
  return found != std::end(kActivations) ? std::optional(found->activation) : std::nullopt;
}

// A node as the kernels' d = activation(a bᵀ + bias + residual).
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  bool transposed = false;  // the weights are [columns, depth] already
  ProductActivation activation = ProductActivation::none;
  bool has_bias = false, has_residual = false;
};

// Fills `product`, and returns why the kernels cannot compute the node, or "".
std::string describe(const ops::NodeView& view, Product& product) {
  const ops::TensorType &x = view.input(0), &w = view.input(1), &y = view.output(0);
  if (suffix_of(x.dtype).empty()) return "the kernel multiplies f32, f16 and bf16 alone";
  if (w.dtype != x.dtype || y.dtype != x.dtype) return "the kernel takes operands of one type alone";
  if (view.constant(1) == nullptr || w.shape.size() != 2) return "the kernel needs constant weights in two dimensions";
  const std::string_view op = view.op().name;
  if (op == "Gemm") {
    if (view.real("alpha") != 1 || view.integer("transA") != 0)
      return "the kernel neither scales nor transposes the data";
    if (view.has_input(2) && view.real("beta") != 1) return "the kernel does not scale the bias";
  }
  if (op != "MatMul") product.transposed = view.integer("transB") != 0;
  if (op == "tessera::Linear") {
    const std::string_view name = view.has_attribute("activation") ? view.text("activation") : "";
    const std::optional<ProductActivation> activation = activation_of(name);
    if (!activation) return fmt::format("the kernel has no {}", name);
    product.activation = *activation;
    if (view.has_attribute("precision")) return "the kernel does not round its operands";
    product.has_residual = view.has_input(3);
    if (product.has_residual && view.input(3).dtype != y.dtype) return "the kernel takes operands of one type alone";
  }
  product.columns = w.shape[product.transposed ? 0 : 1];
  product.depth = w.shape[product.transposed ? 1 : 0];
  product.rows = product.columns == 0 ? 0 : y.elements() / product.columns;
  product.has_bias = view.has_input(2);
  if (product.has_bias &&
      (view.input(2).shape != Shape{product.columns} || view.input(2).dtype != x.dtype || view.constant(2) == nullptr))
    return "the kernel takes a constant bias of one number per column";
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (product.rows > 65535 * 64 || product.columns > kMost || product.depth > kMost)
    return "the product is larger than a grid of the kernel";
  if (product.depth == 0 && product.rows != 0) return "the kernel needs a depth of at least 1";
  return "";
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  Product product;
  if (std::string why = describe(view, product); !why.empty()) return why;
  if (choose_rung(view.input(0).dtype, product.depth, device)) return "";
  return reason_without_rung(view.input(0).dtype, device);
}

class ProductKernel final : public Kernel {
 public:
  ProductKernel(const ops::NodeView& view, WeightStore& weights, const DeviceProperties& device) {
    describe(view, product_);
    rung_ = *choose_rung(view.input(0).dtype, product_.depth, device);
    const Tensor& w = *view.constant(1);
    weights_ = product_.transposed ? pack_as_is(weights, w) : pack_transposed(weights, w);
    if (product_.has_bias) bias_ = pack_as_floats(weights, *view.constant(2));
  }

  void run(KernelContext& context) const override {
    if (product_.rows == 0 || product_.columns == 0) return;
    ProductParameters p{};
    p.a = context.input(0).raw();
    p.b = weights_->data.get();
    p.d = context.output(0).mutable_raw();
    p.bias = bias_ != nullptr ? reinterpret_cast<const float*>(bias_->data.get()) : nullptr;
    p.residual = product_.has_residual ? context.input(3).raw() : nullptr;
    p.rows = static_cast<int>(product_.rows);
    p.columns = static_cast<int>(product_.columns);
    p.depth = static_cast<int>(product_.depth);
    p.a_stride = p.b_stride = product_.depth;
    p.d_stride = product_.columns;
    p.splits = 1;
    p.activation = product_.activation;
    launch_product(stream_of(context), rung_, p);
  }

 private:
  Product product_;
  ProductRung rung_;
  std::shared_ptr<const PackedWeights> weights_, bias_;
};

KernelPointer create(const ops::NodeView& view, WeightStore& weights, const DeviceProperties& device) {
  return std::make_unique<ProductKernel>(view, weights, device);
}

constexpr KernelEntry entry(std::string_view op) {
  return {.op = op, .name = "cuda_product", .reject_on = reject, .create_on = create};
}

}  // namespace

std::span<const KernelEntry> product_kernel_table() {
  static const KernelEntry table[] = {entry("Gemm"), entry("MatMul"), entry("tessera::Linear"),
                                      batched_product_entry()};
  return table;
}

}  // namespace tessera::backends::cuda
