// Channels-last depthwise convolution of unsigned bytes.
#include "backends/cpu/convolutions/depthwise/depthwise_s8.h"

#include <fmt/format.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/result_s8.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"
#include "ops/quantised/quantised_layers.h"

namespace tessera::backends::cpu {

const DepthwiseS8Isa& depthwise_s8_isa() {
  static constexpr DepthwiseS8Isa kPortable{"portable", depthwise_s8_portable,
                                            [](std::int64_t channel) { return channel; }};
#if defined(__x86_64__)
  if (active_vnni()) return depthwise_s8_avx512vnni();
  if (active_isa() != base::Isa::scalar) return depthwise_s8_avx2();
#endif
  return kPortable;
}

namespace {

using At = ops::QuantisedLayerInputs;
using base::ceil_divide;
using base::round_up;

class DepthwiseConvS8 final : public Kernel {
 public:
  DepthwiseConvS8(const ops::NodeView& view, WeightStore& store)
      : isa_(&depthwise_s8_isa()),
        geometry_(channels_last_conv_geometry(view)),
        result_(view, plan_activation(view), blocks() * DepthwiseS8::kChannels) {
    line_groups_ = ceil_divide(geometry_.axes[1].kernel, DepthwiseS8::kGroup);
    const ops::WindowAxis& line = geometry_.axes[2];
    columns_ = base::checked_add(base::checked_multiply(std::max<std::int64_t>(line.output, 1) - 1, line.stride),
                                 line.extent());
    const Tensor& weights = *view.constant(At::weights);
    weights_ = store.find_or_pack(weights, fmt::format("depthwise_s8_v1:{}", isa_->name),
                                  base::checked_add(packed_bytes(), geometry_.channels * 4),
                                  [&](const Tensor& contents, std::byte* to) { pack(contents, to); });
    for (std::int64_t c = 0; c < geometry_.channels; ++c) result_.set(view, lane(c), c, sums()[c]);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const std::uint8_t* x = context.input(At::data).data<std::uint8_t>();
    const OutputS8 output(context);
    const auto& [depth, rows, line] = geometry_.axes;
    const std::int64_t items = geometry_.batch * rows.output * blocks();
    std::int64_t grain = std::max<std::int64_t>(1, 16384 / (DepthwiseS8::kChannels * geometry_.taps() * line.output));
    // Blocks of a line that share cache lines are computed by one thread.
    if (geometry_.channels % DepthwiseS8::kChannels != 0) grain = round_up(grain, blocks());
    context.parallel_for(items, grain, [&](std::int64_t begin, std::int64_t end) {
      std::uint8_t* interleaved = working_memory();
      thread_local std::vector<const std::uint8_t*> lines;
      lines.resize(static_cast<std::size_t>(line_groups_ * DepthwiseS8::kGroup));
      for (std::int64_t item = begin; item < end; ++item) {
        base::yield_point();
        const std::int64_t block = item % blocks(), row = item / blocks() % rows.output,
                           image = item / blocks() / rows.output, c = block * DepthwiseS8::kChannels;
        std::fill(lines.begin(), lines.end(), nullptr);
        for (std::int64_t k = 0; k < rows.kernel; ++k) {
          const std::int64_t h = row * rows.stride - rows.pad_begin + k * rows.dilation;
          if (h >= 0 && h < rows.input)
            lines[static_cast<std::size_t>(k)] = x + ((image * rows.input + h) * line.input) * geometry_.channels + c;
        }
        DepthwiseS8 product{.channels = std::min(DepthwiseS8::kChannels, geometry_.channels - c),
                            .line_groups = line_groups_,
                            .lines = lines.data(),
                            .pixel_stride = geometry_.channels,
                            .input = line.input,
                            .pad_begin = line.pad_begin,
                            .columns = columns_,
                            .padding = result_.data_zero(),
                            .interleaved = interleaved,
                            .outputs = line.output,
                            .kernel = line.kernel,
                            .stride = line.stride,
                            .dilation = line.dilation};
        product.weights = reinterpret_cast<const std::int8_t*>(weights_->data.get()) + block * block_bytes();
        product.start = result_.start() + c;
        product.factor = result_.factor() + c;
        product.offset = result_.offset() + c;
        product.low = result_.low();
        product.high = result_.high();
        product.zero = result_.zero();
        product.result = output.quantised + (image * rows.output + row) * line.output * geometry_.channels + c;
        isa_->run(product);
      }
    });
  }

 private:
  static constexpr std::int64_t kBlock = DepthwiseS8::kChannels * DepthwiseS8::kGroup;
  std::int64_t blocks() const { return ceil_divide(geometry_.channels, DepthwiseS8::kChannels); }
  std::int64_t block_bytes() const { return geometry_.axes[2].kernel * line_groups_ * kBlock; }
  std::int64_t packed_bytes() const { return base::checked_multiply(blocks(), block_bytes()); }
  std::int64_t lane(std::int64_t channel) const {
    return round_up(channel + 1, DepthwiseS8::kChannels) - DepthwiseS8::kChannels +
           isa_->position(channel % DepthwiseS8::kChannels);
  }

  // The calling thread's memory for interleaved lines, aligned to cache lines: vectors in malloc's memory could cross
  // them.
  std::uint8_t* working_memory() const {
    thread_local hwy::AlignedFreeUniquePtr<std::uint8_t[]> memory;
    thread_local std::int64_t room = 0;
    const std::int64_t wanted = columns_ * line_groups_ * kBlock;
    if (wanted > room) {
      room = 0;
      memory = hwy::AllocateAligned<std::uint8_t>(static_cast<std::size_t>(wanted));
      if (memory == nullptr) throw std::bad_alloc();
      room = wanted;
    }
    return memory.get();
  }

  // The sums of each channel's weights, stored behind them.
  const std::int32_t* sums() const {
    return reinterpret_cast<const std::int32_t*>(weights_->data.get() + packed_bytes());
  }

  // [block][column of the window][group of its lines][channel][line]
  void pack(const Tensor& weights, std::byte* packed) const {
    const std::int64_t rows = geometry_.axes[1].kernel, columns = geometry_.axes[2].kernel;
    std::memset(packed, 0, static_cast<std::size_t>(packed_bytes() + geometry_.channels * 4));
    auto* to = reinterpret_cast<std::int8_t*>(packed);
    auto* sums = reinterpret_cast<std::int32_t*>(packed + packed_bytes());
    const std::int8_t* from = weights.data<std::int8_t>();
    for (std::int64_t c = 0; c < geometry_.channels; ++c) {
      std::int8_t* block = to + c / DepthwiseS8::kChannels * block_bytes() +
                           isa_->position(c % DepthwiseS8::kChannels) * DepthwiseS8::kGroup;
      for (std::int64_t h = 0; h < rows; ++h) {
        for (std::int64_t w = 0; w < columns; ++w) {
          const std::int8_t value = from[(c * rows + h) * columns + w];
          sums[c] += value;
          block[(w * line_groups_ + h / DepthwiseS8::kGroup) * kBlock + h % DepthwiseS8::kGroup] = value;
        }
      }
    }
  }

  const DepthwiseS8Isa* isa_;
  ChannelsLastGeometry geometry_;
  ResultS8 result_;
  std::int64_t line_groups_ = 0, columns_ = 0;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

std::string reject_depthwise_s8(const ops::NodeView& view) {
  if (std::string reason = reject_varying_operands_s8(view); !reason.empty()) return reason;
  if (view.input(At::data).dtype != DType::u8) return "signed data";
  if (view.has_input(At::addend)) return "an addend";
  if (std::string reason = reject_unless_depthwise(view); !reason.empty()) return reason;
  if (view.input(At::weights).shape.size() > 4) return "three spatial axes";
  // All columns under a line of windows, with all lines of the window, may be in memory at once.
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  const ops::WindowAxis& line = geometry.axes[2];
  const std::int64_t most_columns = (1 << 17) / (ceil_divide(geometry.axes[1].kernel, DepthwiseS8::kGroup) + 1);
  if (line.output > most_columns / line.stride || line.extent() > most_columns)
    return "windows over a long line or many lines";
  return view.output(0).dtype == DType::u8 ? "" : "a result that is no unsigned byte";
}

KernelPointer make_depthwise_s8(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<DepthwiseConvS8>(view, weights);
}

}  // namespace tessera::backends::cpu
