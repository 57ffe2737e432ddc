// Resize of float32 over the last two axes, or over the two before the last: nearest and linear, a row of the result at
// a time. Where each row and column comes from is worked out when the kernel is made.
#include "ops/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/movement/kernels.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/movement/resize.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y = a * (1 - fraction) + b * fraction
void blend_rows(const float* a, const float* b, float fraction, float* y, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, fraction), g = hn::Set(d, 1 - fraction);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), g, hn::Mul(hn::LoadU(d, b + i), f)), d, y + i);
  }
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  const auto left = hn::MaskedLoad(rest, d, a + i), right = hn::MaskedLoad(rest, d, b + i);
  hn::BlendedStore(hn::MulAdd(left, g, hn::Mul(right, f)), rest, d, y + i);
}

// y[i] = x[low[i]] * (1 - fraction[i]) + x[high[i]] * fraction[i]
void blend_columns(const float* x, const std::int32_t* low, const std::int32_t* high, const float* fraction, float* y,
                   std::int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto a = hn::GatherIndex(d, x, hn::LoadU(di, low + i)), b = hn::GatherIndex(d, x, hn::LoadU(di, high + i));
    const auto f = hn::LoadU(d, fraction + i);
    hn::StoreU(hn::MulAdd(a, hn::Sub(one, f), hn::Mul(b, f)), d, y + i);
  }
  for (; i < count; ++i) y[i] = x[low[i]] * (1 - fraction[i]) + x[high[i]] * fraction[i];
}

// Every element twice.
void double_columns(const float* x, float* y, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreInterleaved2(v, v, d, y + 2 * i);
  }
  for (; i < count; ++i) y[2 * i] = y[2 * i + 1] = x[i];
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(blend_rows);
HWY_EXPORT(blend_columns);
HWY_EXPORT(double_columns);

// Elements a chunk.
constexpr std::int64_t kGrain = 16384;
// A map of an axis stays small beside the tensor.
constexpr std::int64_t kLongestAxis = std::int64_t{1} << 22;

// By position of the result: the two input positions and the share of the second. Nearest: low alone.
struct AxisMap {
  std::vector<std::int32_t> low, high;
  std::vector<float> fraction;
  std::int64_t input = 0;
  bool identity = true;  // every position is itself
  bool doubled = false;  // nearest: position i is input position i / 2

  std::int64_t size() const { return static_cast<std::int64_t>(low.size()); }
};

AxisMap map_axis(const ops::AttributeReader& reader, const ops::ResizedAxis& axis, std::int64_t input) {
  AxisMap map;
  map.input = input;
  map.doubled = axis.size == 2 * input;
  map.identity = axis.size == input;
  const bool nearest = ops::resize_mode(reader) == ops::ResizeMode::nearest;
  const bool unchanged = axis.size == input && axis.scale == 1;
  const auto inside = [&](double position) {
    return static_cast<std::int32_t>(std::clamp<double>(position, 0, static_cast<double>(input - 1)));
  };
  for (std::int64_t i = 0; i < axis.size; ++i) {
    double x = unchanged ? static_cast<double>(i) : ops::resize_source_position(reader, axis, i, input);
    require(!std::isnan(x), ErrorKind::failed, "position {} of a resized axis has no place in the input", i);
    x = std::clamp<double>(x, -1, static_cast<double>(input) + 1);  // far outside is like just outside: the ends repeat
    const double low = nearest ? ops::resize_nearest_position(reader, x) : std::floor(x);
    map.low.push_back(inside(low));
    map.high.push_back(inside(low + 1));
    map.fraction.push_back(static_cast<float>(x - low));
    map.doubled = map.doubled && map.low.back() == i / 2;
    map.identity = map.identity && map.low.back() == i && (nearest || map.fraction.back() == 0);
  }
  return map;
}

bool is_changed(const ops::ResizedAxis& axis, std::int64_t input) {
  return axis.size != input || axis.scale != 1;
}

// One behind the axis of columns: the rank, or the last axis where the two before it are resized and it is not
// (channels).
std::size_t axes_end(const Shape& shape, const std::vector<ops::ResizedAxis>& axes) {
  const std::size_t rank = shape.size();
  const bool inner =
      rank >= 3 && !is_changed(axes[rank - 1], shape[rank - 1]) && is_changed(axes[rank - 3], shape[rank - 3]);
  return inner ? rank - 1 : rank;
}

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(const ops::NodeView& view, const std::vector<ops::ResizedAxis>& axes)
      : linear_(ops::resize_mode(view) == ops::ResizeMode::linear) {
    const Shape& shape = view.input(0).shape;
    const std::size_t end = axes_end(shape, axes);
    rows_ = map_axis(view, axes[end - 2], shape[end - 2]);
    columns_ = map_axis(view, axes[end - 1], shape[end - 1]);
    planes_ = element_count(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(end) - 2));
    if (end < shape.size()) inner_ = shape.back();
  }

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t height = rows_.size(), width = columns_.size() * inner_, line = columns_.input * inner_;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width));
    context.parallel_for(planes_ * height, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> blended(linear_ ? static_cast<std::size_t>(line) : 0);
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t row = item % height;
        const float* plane = x + item / height * rows_.input * line;
        float* target = y + item * width;
        if (linear_) linear_row(plane, row, blended.data(), target);
        else if (item > begin && row > 0 && source_row(row) == source_row(row - 1))
          copy_row(target - width, target, width);
        else nearest_row(plane + source_row(row) * line, target);
      }
    });
  }

 private:
  std::int64_t source_row(std::int64_t row) const { return rows_.low[static_cast<std::size_t>(row)]; }

  static void copy_row(const float* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }

  void nearest_row(const float* from, float* to) const {
    if (columns_.identity) return copy_row(from, to, columns_.size() * inner_);
    if (inner_ > 1) {
      for (const std::int32_t column : columns_.low) {
        copy_row(from + column * inner_, to, inner_);
        to += inner_;
      }
      return;
    }
    if (columns_.doubled) return HWY_DYNAMIC_DISPATCH(double_columns)(from, to, columns_.input);
    for (std::int64_t i = 0; i < columns_.size(); ++i) to[i] = from[columns_.low[static_cast<std::size_t>(i)]];
  }

  void linear_row(const float* plane, std::int64_t row, float* blended, float* to) const {
    const auto i = static_cast<std::size_t>(row);
    const std::int64_t line = columns_.input * inner_;
    const float* from = plane + rows_.low[i] * line;
    if (rows_.fraction[i] != 0) {
      float* result = columns_.identity ? to : blended;
      HWY_DYNAMIC_DISPATCH(blend_rows)
      (from, plane + rows_.high[i] * line, rows_.fraction[i], result, line);
      from = result;
    }
    if (!columns_.identity && inner_ > 1) {
      for (std::size_t c = 0; c < columns_.low.size(); ++c, to += inner_) {
        HWY_DYNAMIC_DISPATCH(blend_rows)
        (from + columns_.low[c] * inner_, from + columns_.high[c] * inner_, columns_.fraction[c], to, inner_);
      }
    } else if (!columns_.identity) {
      HWY_DYNAMIC_DISPATCH(blend_columns)
      (from, columns_.low.data(), columns_.high.data(), columns_.fraction.data(), to, columns_.size());
    } else if (from != to) {
      copy_row(from, to, columns_.size() * inner_);
    }
  }

  AxisMap rows_, columns_;
  std::int64_t planes_ = 1;
  std::int64_t inner_ = 1;  // floats that move together: the axis behind the columns
  bool linear_;
};

const Tensor* non_empty(const ops::NodeView& view, std::size_t i) {
  const Tensor* tensor = view.constant(i);
  return tensor != nullptr && tensor->elements() > 0 ? tensor : nullptr;
}

std::vector<ops::ResizedAxis> axes_of(const ops::NodeView& view) {
  return ops::resolve_resize(view, view.input(0).shape, nullptr, non_empty(view, 2), non_empty(view, 3));
}

}  // namespace

std::string reject_resize(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  if (ops::resize_mode(view) == ops::ResizeMode::cubic) return "interpolates linearly or takes the nearest";
  if (view.integer("antialias") != 0 || view.integer("exclude_outside") != 0) return "has no antialiasing";
  if (view.text("coordinate_transformation_mode") == "tf_crop_and_resize") return "does not crop";
  if ((non_empty(view, 2) != nullptr) == (non_empty(view, 3) != nullptr))
    return "wants sizes that are known before the run";
  const Shape& shape = view.input(0).shape;
  if (shape.size() < 2 || view.input(0).elements() == 0) return "wants two axes and some elements";
  const std::vector<ops::ResizedAxis> axes = axes_of(view);
  const std::size_t end = axes_end(shape, axes);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if ((i + 2 < end || i >= end) && is_changed(axes[i], shape[i]))
      return "resizes the last two axes, or the two before the last";
    if (std::max(shape[i], axes[i].size) > kLongestAxis) return "takes axes up to 2^22";
  }
  return "";
}

KernelPointer make_resize(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ResizeKernel>(view, axes_of(view));
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
