// ConvInteger for models that use its sums as integers, or whose weights have a zero point: a product of 8-bit
// matrices, weights [outputs, taps] times columns [taps, output positions] (im2col of Chellapilla, Puri and Simard,
// 2006). Columns are made for a few lines of the output at a time. Padding counts as the data's zero point.
#include <algorithm>
#include <cstring>

#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/gemm_s8.h"
#include "base/numbers/checked.h"
#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {
namespace {

// Bytes of columns that are made at a time; at least one line.
constexpr std::int64_t kColumnBytes = 1 << 20;

class IntegerConvKernel final : public Kernel {
 public:
  explicit IntegerConvKernel(const ops::NodeView& view)
      : axes_(ops::convolution_geometry(view, view.input(0).shape, view.input(1).shape)) {
    const Shape &x = view.input(0).shape, &w = view.input(1).shape;
    images_ = x[0];
    groups_ = view.integer("group");
    channels_ = w[1];
    outputs_ = w[0] / groups_;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      positions_ *= axes_[i].kernel;
      plane_ *= axes_[i].input;
      if (i + 1 < axes_.size()) lines_ *= axes_[i].output;
    }
    taps_ = channels_ * positions_;
    width_ = axes_.back().output;
    together_ = std::clamp<std::int64_t>(kColumnBytes / std::max<std::int64_t>(1, taps_ * width_), 1,
                                         std::max<std::int64_t>(1, lines_));
    const std::int64_t columns = base::checked_multiply(together_, width_);
    column_bytes_ = base::round_up(base::checked_multiply(taps_, columns), 64);
    packed_bytes_ = base::round_up(gemm_s8_right_bytes(taps_, columns), 64);
    left_bytes_ = base::round_up(gemm_s8_left_bytes(outputs_, taps_), 64);
    sum_bytes_ = base::checked_multiply(outputs_ * 4, columns);
  }

  std::int64_t scratch_bytes() const override {
    return base::checked_add(base::checked_add(column_bytes_, packed_bytes_),
                             base::checked_add(left_bytes_, sum_bytes_));
  }

  void run(KernelContext& context) const override {
    const Tensor &x = context.input(0), &w = context.input(1);
    const auto* data = static_cast<const std::uint8_t*>(x.raw());
    const auto* weights = static_cast<const std::uint8_t*>(w.raw());
    const void* data_zero = context.has_input(2) ? context.input(2).raw() : nullptr;
    const auto* weight_zeros =
        context.has_input(3) ? static_cast<const std::uint8_t*>(context.input(3).raw()) : nullptr;
    const std::int64_t zeros = weight_zeros == nullptr ? 0 : context.input(3).elements();
    std::int32_t* y = context.output(0).mutable_data<std::int32_t>();
    const std::uint8_t padding = data_zero == nullptr ? 0 : *static_cast<const std::uint8_t*>(data_zero);
    std::byte *columns = context.scratch(), *packed = columns + column_bytes_, *left_scratch = packed + packed_bytes_;
    auto* sums = reinterpret_cast<std::int32_t*>(left_scratch + left_bytes_);
    for (std::int64_t i = 0; i < images_ * groups_; ++i) {
      const std::int64_t group = i % groups_;
      const std::uint8_t* image = data + i * channels_ * plane_;
      const S8Operand left{weights + group * outputs_ * taps_, w.dtype() == DType::i8,
                           weight_zeros == nullptr ? nullptr : weight_zeros + (zeros == 1 ? 0 : group * outputs_),
                           std::min(zeros, outputs_)};
      for (std::int64_t line = 0; line < lines_; line += together_) {
        const std::int64_t some = std::min(together_, lines_ - line), count = some * width_;
        make_columns(context, image, line, some, padding, reinterpret_cast<std::uint8_t*>(columns));
        const S8Operand right{columns, x.dtype() == DType::i8, data_zero, data_zero == nullptr ? 0 : 1};
        gemm_s8_pack_right(right, taps_, count, packed);
        S8Output output;
        output.sums = some == lines_ ? y + i * outputs_ * lines_ * width_ : sums;
        gemm_s8(context, {outputs_, count, taps_}, left, right, packed, left_scratch, output);
        if (some == lines_) continue;
        for (std::int64_t out = 0; out < outputs_; ++out)
          std::copy_n(sums + out * count, count, y + ((i * outputs_ + out) * lines_ + line) * width_);
      }
    }
  }

 private:
  // Makes the columns [channel, kernel position][output position] of the output lines [first, first + count).
  void make_columns(const KernelContext& context, const std::uint8_t* image, std::int64_t first, std::int64_t count,
                    std::uint8_t padding, std::uint8_t* to) const {
    const std::int64_t row = count * width_;
    context.parallel_for(taps_, std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, row)),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t tap = begin; tap < end; ++tap) {
                             for (std::int64_t line = 0; line < count; ++line) {
                               make_line(image + tap / positions_ * plane_, tap % positions_, first + line, padding,
                                         to + tap * row + line * width_);
                             }
                           }
                         });
  }

  // Writes the input under one tap along one line of the output.
  void make_line(const std::uint8_t* plane, std::int64_t position, std::int64_t line, std::uint8_t padding,
                 std::uint8_t* to) const {
    const ops::WindowAxis& inner = axes_.back();
    const std::int64_t tap = position % inner.kernel;
    position /= inner.kernel;
    std::int64_t stride = inner.input, offset = 0;
    for (std::size_t i = axes_.size() - 1; i-- > 0;) {
      const ops::WindowAxis& axis = axes_[i];
      const std::int64_t at =
          line % axis.output * axis.stride - axis.pad_begin + position % axis.kernel * axis.dilation;
      if (at < 0 || at >= axis.input) {
        std::fill_n(to, width_, padding);
        return;
      }
      offset += at * stride;
      stride *= axis.input;
      line /= axis.output;
      position /= axis.kernel;
    }
    const std::uint8_t* from = plane + offset;
    const std::int64_t start = tap * inner.dilation - inner.pad_begin;
    // For outputs [low, high) the tap is inside of the input.
    const std::int64_t low = std::min(width_, start >= 0 ? 0 : (-start + inner.stride - 1) / inner.stride);
    const std::int64_t high =
        std::clamp(start >= inner.input ? 0 : (inner.input - 1 - start) / inner.stride + 1, low, width_);
    std::fill_n(to, low, padding);
    if (inner.stride == 1) std::copy_n(from + start + low, high - low, to + low);
    else
      for (std::int64_t o = low; o < high; ++o) to[o] = from[start + o * inner.stride];
    std::fill_n(to + high, width_ - high, padding);
  }

  std::vector<ops::WindowAxis> axes_;
  std::int64_t images_ = 0, groups_ = 1, channels_ = 0, outputs_ = 0;  // channels and outputs of a group
  std::int64_t positions_ = 1, plane_ = 1, taps_ = 0;                  // of a kernel, of a channel, of a window
  std::int64_t lines_ = 1, width_ = 0, together_ = 1;
  std::int64_t column_bytes_ = 0, packed_bytes_ = 0, left_bytes_ = 0, sum_bytes_ = 0;
};

}  // namespace

std::string reject_conv_integer(const ops::NodeView& view) {
  const Shape &x = view.input(0).shape, &w = view.input(1).shape;
  if (view.output(0).elements() == 0 || element_count(w) == 0 || element_count(x) == 0) return "wants some elements";
  if (x.size() < 3) return "wants a spatial axis";
  const std::int64_t taps = element_count(Shape(w.begin() + 1, w.end()));
  if (taps > (std::int64_t{1} << 24)) return "sums of more than 2^24 terms";
  // Long lines of wide windows would take too much memory.
  const bool is_wide = taps > (std::int64_t{1} << 28) / view.output(0).shape.back();
  return is_wide ? "makes columns of 256 MiB at most" : "";
}

KernelPointer make_conv_integer(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<IntegerConvKernel>(view);
}

}  // namespace tessera::backends::cpu
