// tessera::AveragePoolGradient of float32, channels first: planes in parallel; each is cleared and then receives the
// gradients of its windows, in order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/pooling/kernels.h"
#include "base/error.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/pooling/pooling_gradient.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements per chunk

// The window of one output position along an axis: `count` taps from input position `first` on, `dilation` apart.
struct Taps {
  std::int64_t first = 0, count = 0;
  float divisor = 1;
};

class AveragePoolGradient final : public Kernel {
 public:
  explicit AveragePoolGradient(const ops::NodeView& view) {
    const Shape& shape = view.output(0).shape;
    const bool include_padding = view.integer("count_include_pad") != 0, divide = view.integer("divide") != 0;
    planes_ = shape[0] * shape[1];
    for (const ops::WindowAxis& axis : ops::pooling_geometry(view, shape)) {
      std::vector<Taps> taps;
      for (std::int64_t o = 0; o < axis.output; ++o) {
        const std::int64_t start = o * axis.stride - axis.pad_begin;
        const std::int64_t skipped = start >= 0 ? 0 : (-start + axis.dilation - 1) / axis.dilation;
        taps.push_back({start + skipped * axis.dilation, axis.taps_within(o, 0, axis.input),
                        divide ? static_cast<float>(ops::averaged_taps(axis, o, include_padding)) : 1.0f});
      }
      taps_.push_back(std::move(taps));
      dilations_.push_back(axis.dilation);
      inputs_.push_back(axis.input);
      plane_ *= axis.input;
      windows_ *= axis.output;
    }
  }

  void run(KernelContext& context) const override {
    const float* given = context.input(0).data<float>();
    float* result = context.output(0).mutable_data<float>();
    context.parallel_for(planes_, std::max<std::int64_t>(1, kGrain / (plane_ + windows_)),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t plane = begin; plane < end; ++plane) {
                             float* to = result + plane * plane_;
                             std::memset(to, 0, static_cast<std::size_t>(plane_) * sizeof(float));
                             const float* from = given + plane * windows_;
                             spread(0, 1, from, to);
                           }
                         });
  }

 private:
  // Spreads all windows over the axes from `axis` on, and advances `from` behind them. `to` is at the outer axes' taps.
  void spread(std::size_t axis, float divisor, const float*& from, float* to) const {
    std::int64_t stride = 1;
    for (std::size_t i = axis + 1; i < inputs_.size(); ++i) stride *= inputs_[i];
    const bool last = axis + 1 == taps_.size();
    for (const Taps& taps : taps_[axis]) {
      const float* windows = from;
      if (last) {
        const float share = *from++ / (divisor * taps.divisor);
        for (std::int64_t k = 0; k < taps.count; ++k) to[taps.first + k * dilations_[axis]] += share;
        continue;
      }
      for (std::int64_t k = 0; k < taps.count; ++k) {
        from = windows;
        spread(axis + 1, divisor * taps.divisor, from, to + (taps.first + k * dilations_[axis]) * stride);
      }
      from = windows + windows_behind(axis);
    }
  }

  std::int64_t windows_behind(std::size_t axis) const {
    std::int64_t count = 1;
    for (std::size_t i = axis + 1; i < taps_.size(); ++i) count *= static_cast<std::int64_t>(taps_[i].size());
    return count;
  }

  std::vector<std::vector<Taps>> taps_;  // by axis and output position
  std::vector<std::int64_t> dilations_, inputs_;
  std::int64_t planes_ = 1, plane_ = 1, windows_ = 1;
};

}  // namespace

std::string reject_average_pool_gradient_f32(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  if (view.constant(1) == nullptr) return "wants a shape that is known before the run";
  return view.output(0).elements() == 0 || view.input(0).elements() == 0 ? "wants some elements" : "";
}

KernelPointer make_average_pool_gradient_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<AveragePoolGradient>(view);
}

}  // namespace tessera::backends::cpu
