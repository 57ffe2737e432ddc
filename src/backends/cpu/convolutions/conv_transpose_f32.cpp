// Channels-last transposed convolution in float32 for windows that do not overlap. The taps along a line of a window
// are contiguous in the result as their weights are, so they form one product, whose rows are the lines of the windows.
// If all taps together need fewer vectors, they form one product, whose rows are copied to their lines.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/layer_operands.h"
#include "backends/cpu/products/windows/indirect_product_f32.h"
#include "base/numbers/checked.h"
#include "ops/convolutions/channels_last.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr double kDirectChunkOperations = 1e6;

std::vector<ops::WindowAxis> transposed_axes_of(const ops::NodeView& view) {
  return ops::transposed_geometry(view, ops::channels_first(view.input(0).shape), view.input(1).shape);
}

class ConvTransposeF32 final : public Kernel {
 public:
  ConvTransposeF32(const ops::NodeView& view, WeightStore& store)
      : isa_(&indirect_product_isa()),
        geometry_(channels_last_geometry(view, transposed_axes_of(view))),
        activation_(plan_activation(view)),
        outputs_(view.input(1).shape[1]) {
    const std::int64_t lines = geometry_.taps() / geometry_.axes[2].kernel,
                       line_columns = geometry_.axes[2].kernel * outputs_;
    const bool together = lines * round_up(line_columns, isa_->lanes) > round_up(lines * line_columns, isa_->lanes);
    products_ = together ? 1 : lines;
    lines_ = lines / products_;
    columns_ = lines_ * line_columns;
    bias_.assign(static_cast<std::size_t>(round_up(columns_, isa_->lanes)), 0.0f);
    if (view.has_input(2)) {
      for (std::int64_t j = 0; j < columns_; ++j)
        bias_[static_cast<std::size_t>(j)] = view.constant(2)->data<float>()[j % outputs_];
    }
    const Tensor& weights = *view.constant(1);
    weights_ = store.find_or_pack(
        weights, fmt::format("channels_last_conv_transpose_v2:{}", isa_->name),
        base::checked_multiply(base::checked_multiply(products_, product_floats()), 4),
        [&](const Tensor& contents, std::byte* to) { pack(contents, reinterpret_cast<float*>(to)); });
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const auto& [depth, lines, line] = geometry_.axes;
    const double operations = 2.0 * static_cast<double>(line.input) * static_cast<double>(geometry_.channels) *
                              static_cast<double>(outputs_) * static_cast<double>(geometry_.taps());
    const auto grain = static_cast<std::int64_t>(std::clamp(kDirectChunkOperations / operations, 1.0, 1024.0));
    context.parallel_for(geometry_.batch * depth.input * lines.input, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) run_line(i, x, y);
    });
  }

 private:
  std::int64_t product_floats() const {
    return base::checked_multiply(round_up(columns_, isa_->lanes), geometry_.channels);
  }

  // [product][panel][input][tap, output], columns rounded up to whole vectors.
  void pack(const Tensor& weights, float* to) const {
    const std::int64_t taps = geometry_.taps();
    for (std::int64_t begin = 0; begin < taps * outputs_; begin += columns_) {
      for (std::int64_t first = 0; first < columns_; first += isa_->columns) {
        const std::int64_t columns = std::min(isa_->columns, columns_ - first), width = round_up(columns, isa_->lanes);
        for (std::int64_t c = 0; c < geometry_.channels; ++c, to += width) {
          for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t column = begin + first + j, tap = column / outputs_, output = column % outputs_;
            to[j] = j < columns ? weights.data<float>()[(c * outputs_ + output) * taps + tap] : 0.0f;
          }
        }
      }
    }
  }

  // Computes all outputs that depend on one line of inputs.
  void run_line(std::int64_t index, const float* x, float* y) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t row = index % lines.input, plane = index / lines.input % depth.input,
                       image = index / lines.input / depth.input;
    const std::int64_t pieces = ceil_divide(line.input, isa_->rows), length = columns_ / lines_,
                       line_floats = line.output * outputs_;
    const auto line_of = [&, &depth = depth, &lines = lines](std::int64_t i) {
      return y + ((image * depth.output + plane * depth.stride + i / lines.kernel) * lines.output + row * lines.stride +
                  i % lines.kernel) *
                     line_floats;
    };
    thread_local std::vector<float> windows;
    if (lines_ > 1) windows.resize(static_cast<std::size_t>(isa_->rows * columns_));
    const float* rows[IndirectProduct::kMostRows];
    IndirectProduct product{.segments = 1,
                            .length = geometry_.channels,
                            .left = rows,
                            .columns = columns_,
                            .bias = bias_.data(),
                            .ldc = columns_,
                            .low = activation_.low,
                            .high = activation_.high};
    for (std::int64_t i = 0; i < products_; ++i) {
      product.right = reinterpret_cast<const float*>(weights_->data.get()) + i * product_floats();
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t begin = line.input * piece / pieces, end = line.input * (piece + 1) / pieces;
        for (std::int64_t j = begin; j < end; ++j) rows[j - begin] = x + (index * line.input + j) * geometry_.channels;
        product.rows = end - begin;
        product.c = lines_ > 1 ? windows.data() : line_of(i) + begin * length;
        isa_->multiply(product);
        for (std::int64_t of_window = 0; of_window < lines_ && lines_ > 1; ++of_window) {
          float* to = line_of(of_window) + begin * length;
          for (std::int64_t j = 0; j < product.rows; ++j)
            std::copy_n(product.c + j * columns_ + of_window * length, length, to + j * length);
        }
      }
    }
    if (activation_.after.function == nullptr) return;
    for (std::int64_t i = 0; i < products_ * lines_; ++i) activation_.after(line_of(i), line_floats);
  }

  const IndirectProductIsa* isa_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  std::int64_t outputs_;
  std::int64_t products_ = 1, lines_ = 1, columns_ = 0;  // products; lines of windows and columns of each
  std::vector<float> bias_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_conv_transpose_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  if (std::string reason = reject_variable_operands(view); !reason.empty()) return reason;
  if (view.integer("group") != 1) return "groups";
  for (const ops::WindowAxis& axis : transposed_axes_of(view)) {
    const bool side_by_side = axis.kernel == axis.stride && axis.dilation == 1 && axis.pad_begin == 0 &&
                              axis.output == axis.input * axis.stride;
    if (!side_by_side) return "windows that overlap or leave gaps";
  }
  return "";
}

KernelPointer make_conv_transpose_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<ConvTransposeF32>(view, weights);
}

}  // namespace tessera::backends::cpu
