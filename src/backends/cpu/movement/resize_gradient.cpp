// tessera::ResizeGradient of float32, in every mode: one axis after the other, from the last to the first. Along an
// axis each position of the result sums the gradients of the positions that it contributed to, which are listed when
// the kernel is created; so sums have one order, however rows are distributed to threads.
#include "ops/sampling/resize_gradient.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/movement/kernels.h"
#include "base/numbers/checked.h"
#include "ops/sampling/resize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/movement/resize_gradient.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[i] = Σ_k weights[k] · from[offsets[k] + i]
void sum_weighted_rows(const float* from, const std::int64_t* offsets, const float* weights, std::int64_t taps,
                       float* to, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, count - i)));
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < taps; ++k)
      sum = hn::MulAdd(hn::Set(d, weights[k]), hn::MaskedLoad(mask, d, from + offsets[k] + i), sum);
    hn::BlendedStore(sum, mask, d, to + i);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(sum_weighted_rows);

constexpr std::int64_t kGrain = 16384;  // elements per chunk
// The longest axis whose list is small compared with the tensor.
constexpr std::int64_t kLongestAxis = std::int64_t{1} << 22;

// The transpose of resizing one axis: [outer, from, inner] to [outer, to, inner].
struct AxisSum {
  std::int64_t outer = 1, from = 0, to = 0, inner = 1;
  // Position i of the result sums entries [begin[i], begin[i + 1]): offsets in elements and their weights.
  std::vector<std::int64_t> begin, offsets;
  std::vector<float> weights;

  std::int64_t elements() const { return outer * to * inner; }
};

AxisSum sum_along(const ops::AttributeReader& reader, const ops::ResizedAxis& axis, std::int64_t input) {
  std::vector<std::vector<std::pair<std::int64_t, double>>> lists(static_cast<std::size_t>(input));
  for (std::int64_t x = 0; x < axis.size; ++x) {
    const ops::ResizeTaps taps = ops::resize_taps(reader, axis, x, input);
    if (taps.outside) continue;
    for (std::size_t t = 0; t < taps.weights.size(); ++t) {
      const auto at = std::clamp<std::int64_t>(taps.first + static_cast<std::int64_t>(t), 0, input - 1);
      auto& list = lists[static_cast<std::size_t>(at)];
      if (!list.empty() && list.back().first == x) list.back().second += taps.weights[t];  // an edge that repeats
      else list.emplace_back(x, taps.weights[t]);
    }
  }
  AxisSum sum{.from = axis.size, .to = input};
  for (const auto& list : lists) {
    sum.begin.push_back(static_cast<std::int64_t>(sum.offsets.size()));
    for (const auto& [position, weight] : list) {
      sum.offsets.push_back(position);
      sum.weights.push_back(static_cast<float>(weight));
    }
  }
  sum.begin.push_back(static_cast<std::int64_t>(sum.offsets.size()));
  return sum;
}

class ResizeGradientKernel final : public Kernel {
 public:
  ResizeGradientKernel(const ops::NodeView& view, const std::vector<ops::ResizedAxis>& axes) {
    const bool nearest = ops::resize_mode(view) == ops::ResizeMode::nearest;
    Shape current = view.input(0).shape;
    const Shape& shape = view.output(0).shape;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const ops::ResizedAxis& axis = axes[i];
      const bool unchanged = axis.size == shape[i] && axis.scale == 1 && axis.roi_start == 0 && axis.roi_end == 1;
      if (unchanged && !nearest) continue;
      AxisSum sum = sum_along(view, axis, shape[i]);
      if (is_identity(sum)) continue;
      current[i] = shape[i];
      for (std::size_t k = 0; k < i; ++k) sum.outer *= current[k];
      for (std::size_t k = i + 1; k < current.size(); ++k) sum.inner *= current[k];
      for (std::int64_t& offset : sum.offsets) offset *= sum.inner;
      sums_.push_back(std::move(sum));
    }
  }

  // Results of all axes but the last, in two alternating buffers.
  std::int64_t scratch_bytes() const override {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i + 1 < sums_.size(); ++i) bytes = std::max(bytes, buffer_bytes(i));
    return sums_.size() > 2 ? 2 * bytes : bytes;
  }

  void run(KernelContext& context) const override {
    const float* from = context.input(0).data<float>();
    float* result = context.output(0).mutable_data<float>();
    if (sums_.empty()) {
      std::copy_n(from, context.output(0).elements(), result);
      return;
    }
    auto* scratch = reinterpret_cast<float*>(context.scratch());
    const std::int64_t other = sums_.size() > 2 ? scratch_bytes() / 2 / 4 : 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      float* to = i + 1 == sums_.size() ? result : scratch + (i % 2 == 0 ? 0 : other);
      sum_axis(context, sums_[i], from, to);
      from = to;
    }
  }

 private:
  std::int64_t buffer_bytes(std::size_t i) const {
    return base::round_up(base::checked_multiply(sums_[i].elements(), 4), 64);
  }

  static bool is_identity(const AxisSum& sum) {
    bool identity = sum.from == sum.to && sum.offsets.size() == static_cast<std::size_t>(sum.to);
    for (std::size_t i = 0; identity && i < sum.offsets.size(); ++i)
      identity = sum.offsets[i] == static_cast<std::int64_t>(i) && sum.weights[i] == 1;
    return identity;
  }

  static void sum_axis(const KernelContext& context, const AxisSum& sum, const float* from, float* to) {
    const std::int64_t taps = static_cast<std::int64_t>(sum.offsets.size()) / std::max<std::int64_t>(1, sum.to) + 1;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (sum.inner * taps));
    context.parallel_for(sum.outer * sum.to, grain, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t row = first; row < end; ++row) {
        const std::int64_t slab = row / sum.to;
        const auto i = static_cast<std::size_t>(row % sum.to), begin = static_cast<std::size_t>(sum.begin[i]);
        const std::int64_t count = sum.begin[i + 1] - sum.begin[i];
        const float* source = from + slab * sum.from * sum.inner;
        if (sum.inner == 1) {
          float total = 0;
          for (std::size_t k = begin; k < begin + static_cast<std::size_t>(count); ++k)
            total += sum.weights[k] * source[sum.offsets[k]];
          to[row] = total;
        } else {
          HWY_DYNAMIC_DISPATCH(sum_weighted_rows)
          (source, sum.offsets.data() + begin, sum.weights.data() + begin, count, to + row * sum.inner, sum.inner);
        }
      }
    });
  }

  std::vector<AxisSum> sums_;
};

const Tensor* non_empty(const ops::NodeView& view, std::size_t i) {
  const Tensor* tensor = view.constant(i);
  return tensor != nullptr && tensor->elements() > 0 ? tensor : nullptr;
}

std::vector<ops::ResizedAxis> axes_of(const ops::NodeView& view) {
  return ops::resolve_resize(view, view.output(0).shape, non_empty(view, 2), non_empty(view, 3), non_empty(view, 4));
}

}  // namespace

std::string reject_resize_gradient(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  if (view.constant(1) == nullptr || (non_empty(view, 3) != nullptr) == (non_empty(view, 4) != nullptr))
    return "wants sizes that are known before the run";
  if (view.text("coordinate_transformation_mode") == "tf_crop_and_resize" && non_empty(view, 2) == nullptr)
    return "wants a region that is known before the run";
  if (view.output(0).shape.empty() || view.output(0).elements() == 0 || view.input(0).elements() == 0)
    return "wants an axis and some elements";
  Shape resized;
  for (const ops::ResizedAxis& axis : axes_of(view)) resized.push_back(axis.size);
  if (resized != view.input(0).shape) return "wants a gradient of the resized shape";
  for (std::size_t i = 0; i < resized.size(); ++i) {
    if (std::max(resized[i], view.output(0).shape[i]) > kLongestAxis) return "takes axes up to 2^22";
  }
  return "";
}

KernelPointer make_resize_gradient(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ResizeGradientKernel>(view, axes_of(view));
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
