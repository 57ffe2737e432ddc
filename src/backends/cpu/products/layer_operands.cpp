#include "backends/cpu/products/layer_operands.h"

#include <algorithm>

#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t scratch_for(std::int64_t floats) {
  return base::round_up(base::checked_multiply(floats, 4), kAlignment);
}

}  // namespace

LayerOperands::LayerOperands(const ops::NodeView& view, WeightStore& store, WeightPacking packing,
                             BiasPlacement placement)
    : packing_(std::move(packing)),
      placement_(std::move(placement)),
      variable_weights_(view.constant(1) == nullptr),
      variable_bias_(view.has_input(2) && view.constant(2) == nullptr) {
  if (!variable_weights_) {
    weights_ = store.find_or_pack(*view.constant(1), packing_.name, base::checked_multiply(packing_.floats, 4),
                                  [&](const Tensor& contents, std::byte* to) {
                                    for (std::int64_t i = 0; i < packing_.pieces; ++i)
                                      packing_.pack(contents.data<float>(), reinterpret_cast<float*>(to), i);
                                  });
  }
  if (variable_bias_) return;
  bias_.assign(static_cast<std::size_t>(placement_.floats), 0.0f);
  if (view.has_input(2)) placement_.place(view.constant(2)->data<float>(), bias_.data());
}

std::int64_t LayerOperands::weight_bytes() const {
  return variable_weights_ ? scratch_for(packing_.floats) : 0;
}

std::int64_t LayerOperands::scratch_bytes() const {
  return base::checked_add(weight_bytes(), variable_bias_ ? scratch_for(placement_.floats) : 0);
}

LayerOperands::Pointers LayerOperands::constants() const {
  return {reinterpret_cast<const float*>(weights_->data.get()), bias_.data()};
}

LayerOperands::Pointers LayerOperands::prepare(KernelContext& context, std::byte* scratch) const {
  Pointers pointers{weights_ == nullptr ? nullptr : reinterpret_cast<const float*>(weights_->data.get()), bias_.data()};
  if (variable_weights_) {
    const float* weights = context.input(1).data<float>();
    auto* to = reinterpret_cast<float*>(scratch);
    context.parallel_for(packing_.pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) packing_.pack(weights, to, i);
    });
    pointers.weights = to;
  }
  if (variable_bias_) {
    auto* to = reinterpret_cast<float*>(scratch + weight_bytes());
    std::fill_n(to, placement_.floats, 0.0f);
    placement_.place(context.input(2).data<float>(), to);
    pointers.bias = to;
  }
  return pointers;
}

std::string reject_variable_operands(const ops::NodeView& view) {
  const bool constant = view.constant(1) != nullptr && (!view.has_input(2) || view.constant(2) != nullptr);
  return constant ? "" : "weights or bias are no constants";
}

}  // namespace tessera::backends::cpu
