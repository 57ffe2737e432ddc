// The gradient of a channels-last convolution with respect to its weights in float32: for each group the product Gᵀ ·
// windows of X, [outputs × positions] · [positions × (tap, input)]. Windows are gathered block by block while the
// product packs its right operand, so the matrix of windows never exists as a whole. Sums run over the positions in an
// order that depends on the shape alone.
#include <algorithm>

#include "backends/cpu/convolutions/weight_gradient.h"
#include "backends/cpu/products/gemm_f32.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

// The windows of one group as a matrix [positions, (tap, channel)].
struct WindowMatrix {
  const float* x = nullptr;  // the group's first channel
  const ChannelsLastGeometry* geometry = nullptr;
  std::int64_t channels = 0;  // of the group
  // The taps whose channels form one segment of neighbouring columns that are contiguous in the data: one tap, or all
  // taps of a line.
  std::int64_t segment_taps = 1;

  std::int64_t segment_columns() const { return segment_taps * channels; }

  // A PackRight.
  static void pack(const void* state, std::int64_t k_begin, std::int64_t k_count, std::int64_t column,
                   std::int64_t width, float* to, std::int64_t stride) {
    const auto& matrix = *static_cast<const WindowMatrix*>(state);
    if (width < stride) {
      for (std::int64_t k = 0; k < k_count; ++k) std::fill(to + k * stride + width, to + (k + 1) * stride, 0.0f);
    }
    const std::int64_t length = matrix.segment_columns();
    for (std::int64_t done = 0; done < width;) {
      const std::int64_t segment = (column + done) / length, low = (column + done) % length,
                         count = std::min(width - done, length - low);
      matrix.pack_segment(k_begin, k_count, segment, low, count, to + done, stride);
      done += count;
    }
  }

  // Packs the columns [low, low + count) of a segment.
  void pack_segment(std::int64_t first, std::int64_t rows, std::int64_t segment, std::int64_t low, std::int64_t count,
                    float* to, std::int64_t stride) const {
    const auto& [depth, lines, line] = geometry->axes;
    const std::int64_t tap = segment * segment_taps, kw = tap % line.kernel, kh = tap / line.kernel % lines.kernel,
                       kd = tap / line.kernel / lines.kernel;
    for (std::int64_t row = first; row < first + rows;) {
      // Takes positions of one line of results: their windows begin in the same line of the data.
      const std::int64_t o = row % line.output, h = row / line.output % lines.output,
                         d = row / line.output / lines.output % depth.output, image = row / geometry->outputs();
      const std::int64_t together = std::min(first + rows - row, line.output - o);
      const std::int64_t slice = d * depth.stride - depth.pad_begin + kd * depth.dilation,
                         height = h * lines.stride - lines.pad_begin + kh * lines.dilation;
      const bool inside = slice >= 0 && slice < depth.input && height >= 0 && height < lines.input;
      const float* from = x + ((image * depth.input + slice) * lines.input + height) * line.input * geometry->channels;
      const std::int64_t start = o * line.stride - line.pad_begin + kw * line.dilation;
      pack_line(inside ? from : nullptr, start, together, low, count, to, stride);
      row += together;
      to += together * stride;
    }
  }

  // Packs windows that begin at pixels start, start + stride of the axis, … of the line at `from` (null: outside).
  void pack_line(const float* from, std::int64_t start, std::int64_t windows, std::int64_t low, std::int64_t count,
                 float* to, std::int64_t stride) const {
    const ops::WindowAxis& line = geometry->axes[2];
    const std::int64_t floats = line.input * geometry->channels;
    for (std::int64_t i = 0; i < windows; ++i, start += line.stride, to += stride) {
      if (from == nullptr) {
        std::fill_n(to, count, 0.0f);
        continue;
      }
      // The part of the columns that is inside of the line.
      const std::int64_t first = start * geometry->channels + low;
      const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, count),
                         end = std::clamp<std::int64_t>(floats - first, begin, count);
      if (begin == 0 && end == count) {
        std::copy_n(from + first, count, to);
        continue;
      }
      std::fill_n(to, begin, 0.0f);
      std::copy_n(from + first + begin, end - begin, to + begin);
      std::fill_n(to + end, count - end, 0.0f);
    }
  }
};

class WindowWeightGradient final : public WeightGradient {
 public:
  WindowWeightGradient(const ChannelsLastGeometry& geometry, std::int64_t groups, std::int64_t outputs)
      : geometry_(geometry),
        groups_(groups),
        inputs_(geometry.channels / groups),
        outputs_(outputs / groups),
        gemm_({outputs_, geometry_.taps() * inputs_, geometry_.batch * geometry_.outputs()}, false, false) {
    const ops::WindowAxis& line = geometry_.axes[2];
    if (groups_ == 1 && line.dilation == 1) segment_taps_ = line.kernel;
  }

  // The product has its columns in the order (tap, input), the result in the order (input, tap).
  std::int64_t scratch_bytes() const override {
    return geometry_.taps() == 1 ? 0 : base::checked_multiply(gemm_.shape().m * gemm_.shape().n, groups_ * 4);
  }

  void compute(KernelContext& context, const float* x, const float* gradient, float* w,
               std::byte* scratch) const override {
    const std::int64_t taps = geometry_.taps();
    float* product = taps == 1 ? w : reinterpret_cast<float*>(scratch);
    const auto [m, n, k] = gemm_.shape();
    for (std::int64_t g = 0; g < groups_; ++g) {
      const WindowMatrix windows{x + g * inputs_, &geometry_, inputs_, segment_taps_};
      const GemmOperand left = GemmOperand::strided(gradient + g * outputs_, 1, groups_ * outputs_);
      gemm_f32(context, gemm_, left, GemmOperand::on_the_fly(WindowMatrix::pack, &windows), product + g * m * n, n);
    }
    if (taps == 1) return;
    constexpr std::int64_t kChunkFloats = 16 * 1024;
    context.parallel_for(groups_ * m, std::max<std::int64_t>(1, kChunkFloats / n),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i)
                             gemm_f32_transpose(product + i * n, inputs_, 1, taps, inputs_, w + i * n, taps);
                         });
  }

 private:
  ChannelsLastGeometry geometry_;
  std::int64_t groups_, inputs_, outputs_;  // channels of a group
  std::int64_t segment_taps_ = 1;
  GemmF32 gemm_;
};

}  // namespace

std::unique_ptr<WeightGradient> make_window_weight_gradient_f32(const ChannelsLastGeometry& geometry,
                                                                std::int64_t groups, std::int64_t outputs) {
  return std::make_unique<WindowWeightGradient>(geometry, groups, outputs);
}

}  // namespace tessera::backends::cpu
