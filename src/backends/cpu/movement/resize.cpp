// Resize over the last two axes, or over the two before the last: nearest for elements of 1 to 8 bytes, linear for
// float32 and bytes, one row of the result at a time. The source positions of rows and columns are computed when the
// kernel is created.
#include "ops/sampling/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/resize_lines.h"
#include "backends/cpu/movement/strided_copy.h"
#include "base/error.h"

namespace tessera::backends::cpu {
namespace {

// Elements per chunk.
constexpr std::int64_t kGrain = 16384;
// The longest axis whose map is small compared with the tensor.
constexpr std::int64_t kLongestResizedAxis = std::int64_t{1} << 22;

// For each position of the result: the two input positions and the weight of the second. Nearest: only `low`.
struct AxisMap {
  std::vector<std::int32_t> low, high;
  std::vector<double> fraction;
  std::int64_t input = 0;
  bool identity = true;  // every position maps to itself
  bool doubled = false;  // nearest: position i maps to input position i / 2

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
    x = std::clamp<double>(x, -1, static_cast<double>(input) + 1);  // far outside is like just outside: edges repeat
    const double low = nearest ? ops::resize_nearest_position(reader, x) : std::floor(x);
    map.low.push_back(inside(low));
    map.high.push_back(inside(low + 1));
    map.fraction.push_back(x - low);
    map.doubled = map.doubled && map.low.back() == i / 2;
    map.identity = map.identity && map.low.back() == i && (nearest || map.fraction.back() == 0);
  }
  return map;
}

bool is_changed(const ops::ResizedAxis& axis, std::int64_t input) {
  return axis.size != input || axis.scale != 1;
}

// The end of the axis of columns: the rank, or the last axis (channels) if the two before it are resized and it is not.
std::size_t axes_end(const Shape& shape, const std::vector<ops::ResizedAxis>& axes) {
  const std::size_t rank = shape.size();
  const bool inner =
      rank >= 3 && !is_changed(axes[rank - 1], shape[rank - 1]) && is_changed(axes[rank - 3], shape[rank - 3]);
  return inner ? rank - 1 : rank;
}

// Row-by-row resizing, shared by both modes. `x` and `y` are in bytes.
class ResizeKernel : public Kernel {
 public:
  ResizeKernel(const ops::NodeView& view, const std::vector<ops::ResizedAxis>& axes) {
    const Shape& shape = view.input(0).shape;
    const std::size_t end = axes_end(shape, axes);
    rows_ = map_axis(view, axes[end - 2], shape[end - 2]);
    columns_ = map_axis(view, axes[end - 1], shape[end - 1]);
    planes_ = element_count(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(end) - 2));
    if (end < shape.size()) inner_ = shape.back();
  }

 protected:
  std::int64_t input_line() const { return columns_.input * inner_; }
  std::int64_t output_line() const { return columns_.size() * inner_; }
  std::int64_t grain() const { return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, output_line())); }

  AxisMap rows_, columns_;
  std::int64_t planes_ = 1;
  std::int64_t inner_ = 1;  // elements moved together: the axis behind the columns
};

class NearestKernel final : public ResizeKernel {
 public:
  NearestKernel(const ops::NodeView& view, const std::vector<ops::ResizedAxis>& axes)
      : ResizeKernel(view, axes), bytes_(bits_of(view.input(0).dtype) / 8) {
    // A few channels of bytes are moved as one element.
    if (const std::int64_t joined = bytes_ * inner_; joined == 2 || joined == 4 || joined == 8) {
      bytes_ = joined;
      inner_ = 1;
    }
  }

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const std::byte*>(context.input(0).raw());
    auto* y = static_cast<std::byte*>(context.output(0).mutable_raw());
    const std::int64_t height = rows_.size(), width = output_line() * bytes_, line = input_line() * bytes_;
    context.parallel_for(planes_ * height, grain(), [&](std::int64_t begin, std::int64_t end) {
      std::int64_t row = begin % height, last = -1;  // the input's row selected last
      const std::byte* plane = x + begin / height * rows_.input * line;
      std::byte* target = y + begin * width;
      for (std::int64_t item = begin; item < end; ++item, target += width) {
        const std::int64_t from = rows_.low[static_cast<std::size_t>(row)];
        if (from == last) std::memcpy(target, target - width, static_cast<std::size_t>(width));
        else pick_row(plane + from * line, target);
        last = from;
        if (++row < height) continue;
        row = 0;
        last = -1;
        plane += rows_.input * line;
      }
    });
  }

 private:
  void pick_row(const std::byte* from, std::byte* to) const {
    const std::int64_t together = inner_ * bytes_;
    if (columns_.identity) {
      std::memcpy(to, from, static_cast<std::size_t>(columns_.size() * together));
    } else if (inner_ > 1) {
      for (const std::int32_t column : columns_.low) {
        std::memcpy(to, from + column * together, static_cast<std::size_t>(together));
        to += together;
      }
    } else if (columns_.doubled) {
      double_elements(from, to, columns_.input, bytes_);
    } else {
      pick_elements(from, columns_.low.data(), to, columns_.size(), bytes_);
    }
  }

  std::int64_t bytes_;  // of an element
};

// y = x[low] * (1 - fraction) + x[high] * fraction, along the rows and then along the columns.
class LinearKernel final : public ResizeKernel {
 public:
  LinearKernel(const ops::NodeView& view, const std::vector<ops::ResizedAxis>& axes) : ResizeKernel(view, axes) {
    column_fraction_.assign(columns_.fraction.begin(), columns_.fraction.end());
  }

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t height = rows_.size();
    context.parallel_for(planes_ * height, grain(), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> blended(static_cast<std::size_t>(input_line()));
      for (std::int64_t item = begin; item < end; ++item) {
        const float* plane = x + item / height * rows_.input * input_line();
        resize_row(plane, static_cast<std::size_t>(item % height), blended.data(), y + item * output_line());
      }
    });
  }

 private:
  void resize_row(const float* plane, std::size_t row, float* blended, float* to) const {
    const std::int64_t line = input_line();
    const float* from = plane + rows_.low[row] * line;
    if (const auto fraction = static_cast<float>(rows_.fraction[row]); fraction != 0) {
      float* result = columns_.identity ? to : blended;
      blend_rows(from, plane + rows_.high[row] * line, fraction, result, line);
      from = result;
    }
    if (!columns_.identity && inner_ > 1) {
      for (std::size_t c = 0; c < columns_.low.size(); ++c, to += inner_) {
        blend_rows(from + columns_.low[c] * inner_, from + columns_.high[c] * inner_, column_fraction_[c], to, inner_);
      }
    } else if (!columns_.identity) {
      blend_columns(from, columns_.low.data(), columns_.high.data(), column_fraction_.data(), to, columns_.size());
    } else if (from != to) {
      std::memcpy(to, from, static_cast<std::size_t>(output_line()) * sizeof(float));
    }
  }

  std::vector<float> column_fraction_;
};

// For signed or unsigned bytes: computes in double, each sum in the reference's order, so that ties round in the same
// way.
class LinearByteKernel final : public ResizeKernel {
 public:
  LinearByteKernel(const ops::NodeView& view, const std::vector<ops::ResizedAxis>& axes)
      : ResizeKernel(view, axes), is_signed_(view.input(0).dtype == DType::i8) {}

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const std::uint8_t*>(context.input(0).raw());
    auto* y = static_cast<std::uint8_t*>(context.output(0).mutable_raw());
    const std::int64_t height = rows_.size(), line = input_line();
    context.parallel_for(planes_ * height, grain(), [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> blended(static_cast<std::size_t>(line));
      for (std::int64_t item = begin; item < end; ++item) {
        const std::uint8_t* plane = x + item / height * rows_.input * line;
        const auto row = static_cast<std::size_t>(item % height);
        blend_byte_rows(plane + rows_.low[row] * line, plane + rows_.high[row] * line, is_signed_, rows_.fraction[row],
                        blended.data(), line);
        resize_columns(blended.data(), y + item * output_line());
      }
    });
  }

 private:
  void resize_columns(const double* from, std::uint8_t* to) const {
    if (columns_.identity) return blend_to_bytes(from, from, 0, to, output_line());
    if (inner_ == 1) {
      return blend_columns_to_bytes(from, columns_.low.data(), columns_.high.data(), columns_.fraction.data(), to,
                                    columns_.size());
    }
    for (std::size_t c = 0; c < columns_.low.size(); ++c, to += inner_) {
      blend_to_bytes(from + columns_.low[c] * inner_, from + columns_.high[c] * inner_, columns_.fraction[c], to,
                     inner_);
    }
  }

  bool is_signed_;
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
  const DType type = view.input(0).dtype;
  if (ops::resize_mode(view) == ops::ResizeMode::cubic) return "interpolates linearly or takes the nearest";
  if (ops::resize_mode(view) == ops::ResizeMode::nearest) {
    if (!moves_as_bytes(type) || bits_of(type) > 64) return "moves elements of 1 to 8 bytes";
  } else if (type != DType::f32 && type != DType::u8 && type != DType::i8) {
    return "interpolates f32, u8 and i8";
  }
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
    if (std::max(shape[i], axes[i].size) > kLongestResizedAxis) return "takes axes up to 2^22";
  }
  return "";
}

KernelPointer make_resize(const ops::NodeView& view, WeightStore&) {
  if (ops::resize_mode(view) == ops::ResizeMode::nearest) return std::make_unique<NearestKernel>(view, axes_of(view));
  if (view.input(0).dtype == DType::f32) return std::make_unique<LinearKernel>(view, axes_of(view));
  return std::make_unique<LinearByteKernel>(view, axes_of(view));
}

}  // namespace tessera::backends::cpu
