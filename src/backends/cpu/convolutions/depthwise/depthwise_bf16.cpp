// Channels-last depthwise convolution with data and weights rounded to bfloat16 (ops/products/rounded_product.h).
#include "backends/cpu/convolutions/depthwise/depthwise_bf16.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/element_wise/rounding_bf16.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/layer_operands.h"
#include "backends/cpu/products/windows/window_product.h"
#include "base/numbers/checked.h"
#include "base/numbers/half.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {

RunDepthwiseBf16 depthwise_bf16() {
#if defined(__x86_64__)
  if (active_bf16()) return depthwise_bf16_avx512bf16;
  if (active_isa() == base::Isa::avx512) return depthwise_bf16_avx512;
#endif
  return depthwise_bf16_portable;
}

namespace {

constexpr double kDepthwiseChunkOperations = 2e5;

class DepthwiseConvBf16 final : public LineKernel {
 public:
  DepthwiseConvBf16(const ops::NodeView& view, WeightStore& store)
      : sum_line_(depthwise_bf16()),
        geometry_(channels_last_conv_geometry(view)),
        activation_(plan_activation(view)),
        padded_(base::round_up(geometry_.channels, DepthwiseBf16::kLanes)),
        rounded_data_(view.input(0).dtype == DType::bf16),
        rounded_addend_(view.has_input(3) && view.input(3).dtype == DType::bf16),
        rounded_result_(view.output(0).dtype == DType::bf16) {
    bias_.assign(static_cast<std::size_t>(padded_), 0.0f);
    if (view.has_input(2)) std::copy_n(view.constant(2)->data<float>(), geometry_.channels, bias_.data());
    const Tensor& weights = *view.constant(1);
    weights_ = store.find_or_pack(weights, "depthwise_bf16_v2",
                                  base::checked_multiply(base::checked_multiply(geometry_.taps(), padded_), 2),
                                  [&](const Tensor& contents, std::byte* bytes) {
                                    auto* to = reinterpret_cast<std::uint16_t*>(bytes);
                                    const std::int64_t taps = geometry_.taps();
                                    const float* from = contents.data<float>();
                                    std::fill_n(to, taps * padded_, std::uint16_t{0});
                                    for (std::int64_t c = 0; c < geometry_.channels; ++c) {
                                      for (std::int64_t t = 0; t < taps; ++t)
                                        to[t * padded_ + c] = base::to_bf16(from[c * taps + t]).bits;
                                    }
                                  });
    const double operations = 2.0 * static_cast<double>(geometry_.channels) * static_cast<double>(geometry_.taps()) *
                              static_cast<double>(geometry_.axes[2].output);
    grain_ = static_cast<std::int64_t>(std::clamp(kDepthwiseChunkOperations / std::max(1.0, operations), 1.0, 1024.0));
  }

  std::int64_t scratch_bytes() const override {
    return rounded_data_ ? 0
                         : base::checked_multiply(
                               base::checked_multiply(geometry_.batch * geometry_.inputs(), geometry_.channels), 2);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const std::uint16_t* x =
        rounded_data_ ? static_cast<const std::uint16_t*>(context.input(0).raw()) : round_data(context);
    const std::byte* z = context.has_input(3) ? static_cast<const std::byte*>(context.input(3).raw()) : nullptr;
    auto* y = static_cast<std::byte*>(context.output(0).mutable_raw());
    const std::int64_t line_elements = geometry_.axes[2].input * geometry_.channels;
    context.parallel_for(geometry_.batch * geometry_.axes[0].output * geometry_.axes[1].output, grain_,
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             run_line([&](std::int64_t line) { return x + line * line_elements; }, i,
                                      z == nullptr ? nullptr : z + i * addend_bytes(), y + i * result_bytes());
                           }
                         });
  }

  void run_lines(const ConstByteLines& data, const ConstByteLines& z, const ByteLines& y, std::int64_t first,
                 std::int64_t last) const override {
    const auto x = lines_of_type<const std::uint16_t>(data);
    for (std::int64_t i = first; i < last; ++i)
      run_line([&](std::int64_t line) { return x.at(line); }, i, z.data == nullptr ? nullptr : z.at(i), y.at(i));
  }

 private:
  const std::uint16_t* round_data(KernelContext& context) const {
    auto* to = reinterpret_cast<std::uint16_t*>(context.scratch());
    const float* from = context.input(0).data<float>();
    context.parallel_for(context.input(0).elements(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      round_to_bf16_row(from + begin, to + begin, end - begin);
    });
    return to;
  }

  std::int64_t line_numbers() const {
    return geometry_.axes[2].output * geometry_.channels;
  }  // elements of a result line
  std::int64_t addend_bytes() const { return line_numbers() * (rounded_addend_ ? 2 : 4); }
  std::int64_t result_bytes() const { return line_numbers() * (rounded_result_ ? 2 : 4); }

  // Computes the i-th line of outputs to `y`. `line_at` returns the beginning of a line of the data; z: the line of the
  // addend, or null.
  template <typename LineAt>
  void run_line(LineAt line_at, std::int64_t i, const std::byte* z, std::byte* y) const {
    base::yield_point();
    thread_local std::vector<const std::uint16_t*> data, weights;
    thread_local std::vector<float> floats;  // of a line whose activation precedes rounding
    data.clear();
    weights.clear();
    for_each_line_number_under(geometry_, i, [&](std::int64_t line, std::int64_t tap) {
      data.push_back(line_at(line));
      weights.push_back(reinterpret_cast<const std::uint16_t*>(weights_->data.get()) + tap * padded_);
    });
    const bool rounds_last = rounded_result_ && activation_.after.function != nullptr;
    if (rounds_last) floats.resize(static_cast<std::size_t>(line_numbers()));
    const ops::WindowAxis& axis = geometry_.axes[2];
    sum_line_({.channels = geometry_.channels,
               .padded_channels = padded_,
               .line_count = static_cast<std::int64_t>(data.size()),
               .lines = data.data(),
               .weights = weights.data(),
               .input = axis.input,
               .output = axis.output,
               .kernel = axis.kernel,
               .stride = axis.stride,
               .dilation = axis.dilation,
               .pad_begin = axis.pad_begin,
               .bias = bias_.data(),
               .addend = z,
               .result = rounds_last ? static_cast<void*>(floats.data()) : y,
               .rounded_addend = rounded_addend_,
               .rounded_result = rounded_result_ && !rounds_last,
               .low = activation_.low,
               .high = activation_.high});
    if (activation_.after.function == nullptr) return;
    float* line = rounds_last ? floats.data() : reinterpret_cast<float*>(y);
    activation_.after(line, line_numbers());
    if (rounds_last) round_to_bf16_row(line, reinterpret_cast<std::uint16_t*>(y), line_numbers());
  }

  RunDepthwiseBf16 sum_line_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  std::int64_t padded_;  // channels
  bool rounded_data_, rounded_addend_, rounded_result_;
  std::int64_t grain_ = 1;
  std::vector<float> bias_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_depthwise_bf16(const ops::NodeView& view) {
  if (std::string reason = reject_operands_bf16(view); !reason.empty()) return reason;
  if (std::string reason = reject_variable_operands(view); !reason.empty()) return reason;
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  return reject_unless_depthwise(view);
}

KernelPointer make_depthwise_bf16(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<DepthwiseConvBf16>(view, weights);
}
std::unique_ptr<LineKernel> make_line_depthwise_bf16(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<DepthwiseConvBf16>(view, weights);
}

}  // namespace tessera::backends::cpu
