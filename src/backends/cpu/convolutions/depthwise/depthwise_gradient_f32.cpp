// The backward pass of channels-last depthwise convolution in float32. With respect to the data it is the transposed
// convolution: each result sums X times weights over the taps that reach it, for a vector of channels. With respect to
// the weights, each tap sums X times G over the positions of a fixed number of images at a time.
#include <algorithm>
#include <limits>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/weight_gradient.h"
#include "backends/cpu/products/layer_operands.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/depthwise/depthwise_gradient_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"

#ifndef TESSERA_BACKENDS_CPU_DEPTHWISE_GRADIENT
#define TESSERA_BACKENDS_CPU_DEPTHWISE_GRADIENT
namespace tessera::backends::cpu {

// y[c] = clamp(bias[c] + sum over t < taps of x[t][c] · w[t][c]) for c < channels. Weights and bias are padded to whole
// vectors.
struct DepthwiseSum {
  const float* const* x = nullptr;
  const float* const* w = nullptr;
  std::int64_t taps = 0, channels = 0;
  const float* bias = nullptr;
  float* y = nullptr;
  float low = 0, high = 0;
};
// sum[c] += sum over i < count of x[i * x_stride + c] · g[i * g_stride + c] for c < channels, which are at most
// DepthwiseGradientFunctions::block.
struct DepthwiseProducts {
  const float *x = nullptr, *g = nullptr;
  std::int64_t x_stride = 0, g_stride = 0, count = 0, channels = 0;
  float* sum = nullptr;
};
struct DepthwiseGradientFunctions {
  std::int64_t lanes, block;
  void (*add_taps)(const DepthwiseSum&);
  void (*add_products)(const DepthwiseProducts&);
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr std::int64_t kVectors = 4;  // of independent sums

void add_taps(const DepthwiseSum& s) {
  const D d;
  for (std::int64_t c = 0; c < s.channels; c += kLanes) {
    const bool whole = c + kLanes <= s.channels;
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, s.channels - c)));
    V sum = hn::LoadU(d, s.bias + c);
    for (std::int64_t t = 0; t < s.taps; ++t) {
      const V x = whole ? hn::LoadU(d, s.x[t] + c) : hn::MaskedLoad(mask, d, s.x[t] + c);
      sum = hn::MulAdd(x, hn::LoadU(d, s.w[t] + c), sum);
    }
    sum = math::at_most(d, math::at_least(d, sum, s.low), s.high);
    if (whole) hn::StoreU(sum, d, s.y + c);
    else hn::BlendedStore(sum, mask, d, s.y + c);
  }
}

void add_products(const DepthwiseProducts& p) {
  const D d;
  if (p.channels == kVectors * kLanes) {
    V sum[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sum[j] = hn::LoadU(d, p.sum + j * kLanes);
    const float *x = p.x, *g = p.g;
    for (std::int64_t i = 0; i < p.count; ++i, x += p.x_stride, g += p.g_stride) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j)
        sum[j] = hn::MulAdd(hn::LoadU(d, x + j * kLanes), hn::LoadU(d, g + j * kLanes), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sum[j], d, p.sum + j * kLanes);
    return;
  }
  for (std::int64_t c = 0; c < p.channels; c += kLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, p.channels - c)));
    V sum = hn::LoadU(d, p.sum + c);
    const float *x = p.x + c, *g = p.g + c;
    for (std::int64_t i = 0; i < p.count; ++i, x += p.x_stride, g += p.g_stride)
      sum = hn::MulAdd(hn::MaskedLoad(mask, d, x), hn::MaskedLoad(mask, d, g), sum);
    hn::StoreU(sum, d, p.sum + c);
  }
}

}  // namespace

const DepthwiseGradientFunctions* depthwise_gradient_functions() {
  static constexpr DepthwiseGradientFunctions functions{kLanes, kVectors * kLanes, add_taps, add_products};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(depthwise_gradient_functions);

constexpr double kChunkOperations = 5e5;

// Calls visit(tap, input position) for the taps of an axis that reach position o of a transposed convolution.
template <typename Visit>
void for_each_tap_reaching(const ops::WindowAxis& axis, std::int64_t o, Visit visit) {
  for (std::int64_t k = 0; k < axis.kernel; ++k) {
    const std::int64_t distance = o + axis.pad_begin - k * axis.dilation;
    if (distance >= 0 && distance % axis.stride == 0 && distance / axis.stride < axis.input)
      visit(k, distance / axis.stride);
  }
}

class DepthwiseTranspose final : public Kernel {
 public:
  DepthwiseTranspose(const ops::NodeView& view, WeightStore& store)
      : functions_(HWY_DYNAMIC_DISPATCH(depthwise_gradient_functions)()),
        geometry_(channels_last_conv_transpose_geometry(view)),
        activation_(plan_activation(view)),
        operands_(view, store,
                  {.name = "channels_last_depthwise_v1:" + std::to_string(padded_channels()),
                   .floats = base::checked_multiply(geometry_.taps(), padded_channels()),
                   .pack = [this](const float* weights, float* to, std::int64_t) { pack(weights, to); }},
                  {.floats = padded_channels(),
                   .place = [this](const float* bias, float* to) { std::copy_n(bias, geometry_.channels, to); }}) {
    const double operations = 2.0 * static_cast<double>(geometry_.channels * geometry_.taps()) *
                              static_cast<double>(geometry_.axes[2].output);
    grain_ = static_cast<std::int64_t>(std::clamp(kChunkOperations / std::max(1.0, operations), 1.0, 1024.0));
  }

  std::int64_t scratch_bytes() const override { return operands_.scratch_bytes(); }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const LayerOperands::Pointers operands = operands_.prepare(context, context.scratch());
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t lines = geometry_.batch * geometry_.axes[0].output * geometry_.axes[1].output;
    context.parallel_for(lines, grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        base::yield_point();
        run_line(operands, i, x, y);
      }
    });
  }

 private:
  std::int64_t padded_channels() const { return base::round_up(geometry_.channels, functions_->lanes); }

  // [tap][padded channel]
  void pack(const float* from, float* to) const {
    const std::int64_t taps = geometry_.taps(), padded = padded_channels();
    std::fill_n(to, taps * padded, 0.0f);
    for (std::int64_t c = 0; c < geometry_.channels; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) to[t * padded + c] = from[c * taps + t];
    }
  }

  void run_line(const LayerOperands::Pointers& operands, std::int64_t index, const float* x, float* y) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t row = index % lines.output, plane = index / lines.output % depth.output,
                       image = index / lines.output / depth.output, channels = geometry_.channels;
    thread_local std::vector<const float*> from_lines, inputs, weights;
    thread_local std::vector<std::int64_t> line_taps;
    from_lines.clear();
    line_taps.clear();
    for_each_tap_reaching(depth, plane, [&, &lines = lines, &line = line](std::int64_t kd, std::int64_t slice) {
      for_each_tap_reaching(lines, row, [&](std::int64_t kh, std::int64_t height) {
        from_lines.push_back(x + ((image * geometry_.axes[0].input + slice) * lines.input + height) * line.input *
                                     channels);
        line_taps.push_back((kd * lines.kernel + kh) * line.kernel);
      });
    });
    DepthwiseSum sum{.channels = channels, .bias = operands.bias, .low = activation_.low, .high = activation_.high};
    float* to = y + index * line.output * channels;
    for (std::int64_t o = 0; o < line.output; ++o) {
      inputs.clear();
      weights.clear();
      for_each_tap_reaching(line, o, [&](std::int64_t kw, std::int64_t column) {
        for (std::size_t i = 0; i < from_lines.size(); ++i) {
          inputs.push_back(from_lines[i] + column * channels);
          weights.push_back(operands.weights + (line_taps[i] + kw) * padded_channels());
        }
      });
      sum.x = inputs.data();
      sum.w = weights.data();
      sum.taps = static_cast<std::int64_t>(inputs.size());
      sum.y = to + o * channels;
      functions_->add_taps(sum);
    }
    if (activation_.after.function != nullptr) activation_.after(to, line.output * channels);
  }

  const DepthwiseGradientFunctions* functions_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  std::int64_t grain_ = 1;
  LayerOperands operands_;
};

class DepthwiseWeightGradient final : public WeightGradient {
 public:
  explicit DepthwiseWeightGradient(const ChannelsLastGeometry& geometry)
      : functions_(HWY_DYNAMIC_DISPATCH(depthwise_gradient_functions)()),
        geometry_(geometry),
        blocks_(base::ceil_divide(geometry_.channels, functions_->block)),
        parts_(std::clamp<std::int64_t>(geometry_.batch, 1, kMostParts)) {}

  // [part][block][tap][channel]
  std::int64_t scratch_bytes() const override {
    return base::checked_multiply(base::checked_multiply(parts_ * blocks_, block_floats()), 4);
  }

  void compute(KernelContext& context, const float* x, const float* g, float* w, std::byte* scratch) const override {
    auto* sums = reinterpret_cast<float*>(scratch);
    context.parallel_for(parts_ * blocks_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum_part(i / blocks_, i % blocks_, x, g, sums + i * block_floats());
    });
    const std::int64_t taps = geometry_.taps();
    for (std::int64_t c = 0; c < geometry_.channels; ++c) {
      const float* from = sums + c / functions_->block * block_floats() + c % functions_->block;
      for (std::int64_t t = 0; t < taps; ++t) {
        float sum = 0;
        for (std::int64_t part = 0; part < parts_; ++part)
          sum += from[part * blocks_ * block_floats() + t * functions_->block];
        w[c * taps + t] = sum;
      }
    }
  }

 private:
  static constexpr std::int64_t kMostParts = 16;

  std::int64_t block_floats() const { return geometry_.taps() * functions_->block; }

  // Sums over the images of a part, line by line of G: the inputs under the taps of a line stay in a near cache.
  void sum_part(std::int64_t part, std::int64_t block, const float* x, const float* g, float* sums) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t channels = geometry_.channels, first_channel = block * functions_->block;
    std::fill_n(sums, block_floats(), 0.0f);
    DepthwiseProducts products{.x_stride = line.stride * channels,
                               .g_stride = channels,
                               .channels = std::min(functions_->block, channels - first_channel)};
    const std::int64_t image_lines = depth.output * lines.output;
    const std::int64_t begin = geometry_.batch * part / parts_ * image_lines,
                       end = geometry_.batch * (part + 1) / parts_ * image_lines;
    for (std::int64_t i = begin; i < end; ++i) {
      base::yield_point();
      for_each_line_under(geometry_, i, [&, &line = line](std::int64_t offset, std::int64_t first_tap) {
        for (std::int64_t k = 0; k < line.kernel; ++k) {
          // For windows [low, high) this tap is inside of the line.
          const std::int64_t start = k * line.dilation - line.pad_begin;
          const std::int64_t low = start >= 0 ? 0 : base::ceil_divide(-start, line.stride),
                             high = start >= line.input
                                        ? 0
                                        : std::min(line.output, (line.input - 1 - start) / line.stride + 1);
          if (low >= high) continue;
          products.count = high - low;
          products.x = x + offset + (low * line.stride + start) * channels + first_channel;
          products.g = g + (i * line.output + low) * channels + first_channel;
          products.sum = sums + (first_tap + k) * functions_->block;
          functions_->add_products(products);
        }
      });
    }
  }

  const DepthwiseGradientFunctions* functions_;
  ChannelsLastGeometry geometry_;
  std::int64_t blocks_, parts_;  // of channels, of images
};

}  // namespace

std::string reject_depthwise_transpose_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  return reject_unless_depthwise(view);
}
KernelPointer make_depthwise_transpose_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<DepthwiseTranspose>(view, weights);
}

std::unique_ptr<WeightGradient> make_depthwise_weight_gradient_f32(const ChannelsLastGeometry& geometry) {
  return std::make_unique<DepthwiseWeightGradient>(geometry);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
