// Channels-last 3 × 3 convolution of stride 1 over the last two spatial axes in float32, by Winograd's algorithm
// (winograd_transforms.h), which takes a quarter of the multiplications. A third axis before these two may have any
// window: its taps are summed like channels, between the transforms, so that each slice of the input is transformed
// once for all slices of the result that read it.
//
// A 3 × 3 window of dilation d is an undilated one over every d-th row and column of the input: each tile takes the
// rows and columns of one of the d × d phases, in the input and in the result.
//
// A block consists of some tiles in some neighbouring slices. It needs 36 products
// [(tile, slice) × (tap, input)] · [(tap, input) × output].
#include <fmt/format.h>
#include <hwy/base.h>

#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/winograd/winograd_plan.h"
#include "backends/cpu/convolutions/winograd/winograd_transforms.h"
#include "backends/cpu/element_wise/rounding_bf16.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/layer_operands.h"
#include "backends/cpu/products/windows/indirect_product_bf16.h"
#include "backends/cpu/products/windows/indirect_product_f32.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"
#include "ops/symbols.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr double kCachedBytes = 3e6;          // data of this size is still in a near cache when it is read
constexpr std::int64_t kAhead = 2;            // tiles prefetched ahead
constexpr std::int64_t kInputsTogether = 16;  // inputs whose weights are transformed at a time

class Winograd final : public Kernel {
 public:
  // `turned`: the layer is a transposed convolution.
  Winograd(const ops::NodeView& view, WeightStore& store, bool turned)
      : isa_(&indirect_product_isa()),
        functions_(&winograd_functions()),
        turned_(turned),
        plan_(
            turned ? *turned_geometry(channels_last_conv_transpose_geometry(view)) : channels_last_conv_geometry(view),
            view.input(1).shape[turned ? 0 : 1], view.input(1).shape[turned ? 1 : 0], isa_->rows, isa_->lanes),
        activation_(plan_activation(view)),
        rounds_(ops::states_attribute(view.node(), "precision")),
        rounded_data_(view.input(0).dtype == DType::bf16),
        rounded_addend_(view.has_input(3) && view.input(3).dtype == DType::bf16),
        rounded_result_(view.output(0).dtype == DType::bf16),
        operands_(view, store,
                  {.name = fmt::format("channels_last_winograd_v1:{}{}{}", isa_->name, rounds_ ? ":bf16" : "",
                                       turned ? ":turned" : ""),
                   .floats = base::checked_multiply(plan_.part_floats(), kWinogradParts),
                   .pieces = ceil_divide(plan_.outputs(), isa_->columns),
                   .pack = [this](const float* weights, float* to, std::int64_t piece) { pack(weights, to, piece); }},
                  {.floats = round_up(plan_.outputs(), isa_->lanes),
                   .place = [this](const float* bias, float* to) { std::copy_n(bias, plan_.outputs(), to); }}) {
    reads_ahead_ = !plan_.is_dilated() && !rounded_data_ && !rounded_result_ &&
                   static_cast<double>(plan_.geometry().batch * plan_.geometry().inputs()) *
                           static_cast<double>(plan_.inputs()) * 4 >
                       kCachedBytes;
    zeros_.assign(static_cast<std::size_t>(round_up(plan_.outputs(), isa_->lanes)), 0.0f);
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t blocks =
        plan_.has_own_blocks() ? 0 : base::checked_multiply(kWinogradParts, plan_.cut().floats_a_part() * 4);
    return base::checked_add(operands_.scratch_bytes(), blocks);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const void* x = context.input(0).raw();
    const void* z = context.has_input(3) ? context.input(3).raw() : nullptr;
    void* y = context.output(0).mutable_raw();
    const Operands operands = operands_.prepare(context, context.scratch());
    if (plan_.has_own_blocks()) return run_own_blocks(context, plan_.cut(), operands, x, z, y);
    const std::int64_t threads = context.resources().threads();
    if (threads > 1 && plan_.gives_each_a_block(threads))
      return run_own_blocks(context, plan_.cut_for(threads), operands, x, z, y);
    auto* before = reinterpret_cast<float*>(context.scratch() + operands_.scratch_bytes());
    float* after = before + kWinogradParts * plan_.cut().before_stride;
    for (std::int64_t i = 0; i < plan_.blocks(plan_.cut()); ++i) {
      const WinogradBlock block = plan_.block_at(plan_.cut(), i);
      context.parallel_for(block.tiles * block.slices, 4,
                           [&](std::int64_t begin, std::int64_t end) { read_patches(block, begin, end, x, before); });
      const double part_operations = 2.0 * static_cast<double>(block.rows()) * static_cast<double>(plan_.terms()) *
                                     static_cast<double>(plan_.outputs());
      context.parallel_for(
          kWinogradParts,
          std::clamp<std::int64_t>(static_cast<std::int64_t>(1e6 / part_operations), 1, kWinogradParts / 2),
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t part = begin; part < end; ++part) multiply(block, part, operands.weights, before, after);
          });
      context.parallel_for(block.rows(), 4, [&](std::int64_t begin, std::int64_t end) {
        write_tiles(block, begin, end, after, operands.bias, z, y);
      });
    }
  }

 private:
  using Operands = LayerOperands::Pointers;

  void run_own_blocks(KernelContext& context, const WinogradCut& cut, const Operands& operands, const void* x,
                      const void* z, void* y) const {
    context.parallel_for(plan_.blocks(cut), 1, [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<CacheLine> transforms;  // 64-byte aligned, so that vectors do not cross cache lines
      transforms.resize(static_cast<std::size_t>(kWinogradParts * cut.floats_a_part() / CacheLine::kFloats));
      float *before = transforms.data()->floats, *after = before + kWinogradParts * cut.before_stride;
      for (std::int64_t i = begin; i < end; ++i) {
        const WinogradBlock block = plan_.block_at(cut, i);
        read_patches(block, 0, block.tiles * block.slices, x, before);
        for (std::int64_t part = 0; part < kWinogradParts; ++part)
          multiply(block, part, operands.weights, before, after);
        write_tiles(block, 0, block.rows(), after, operands.bias, z, y);
      }
    });
  }

  // Transforms the windows of every pair of channels: [part][panel][tap][input][output], outputs rounded up to whole
  // vectors. A piece is a panel.
  void pack(const float* weights, float* to, std::int64_t piece) const {
    const std::int64_t taps = plan_.geometry().axes[0].kernel, floats = taps * 9,  // per input
        first = piece * isa_->columns;
    const std::int64_t columns = std::min(isa_->columns, plan_.outputs() - first),
                       width = round_up(columns, isa_->lanes);
    thread_local std::vector<float> windows;
    windows.assign(static_cast<std::size_t>(kInputsTogether * floats * isa_->columns), 0.0f);
    to += first * plan_.terms();
    for (std::int64_t begin = 0; begin < plan_.inputs(); begin += kInputsTogether) {
      const std::int64_t end = std::min(plan_.inputs(), begin + kInputsTogether);
      collect_windows(weights, first, columns, begin, end, windows.data(), width);
      if (rounds_) round(windows.data(), (end - begin) * floats * width);
      const float* window = windows.data();
      for (std::int64_t c = begin; c < end; ++c) {
        for (std::int64_t tap = 0; tap < taps; ++tap, window += 9 * width) {
          functions_->transform_weights({.windows = window,
                                         .columns = width,
                                         .parts = to + (tap * plan_.inputs() + c) * width,
                                         .stride = plan_.part_floats()});
        }
      }
    }
  }

  // Collects the weights of some outputs, from `first` on, as [input of begin ... end)[tap][output], `width` floats per
  // tap.
  void collect_windows(const float* weights, std::int64_t first, std::int64_t columns, std::int64_t begin,
                       std::int64_t end, float* to, std::int64_t width) const {
    const std::int64_t floats = plan_.geometry().axes[0].kernel * 9;
    if (!turned_)
      return gemm_f32_transpose(weights + (first * plan_.inputs() + begin) * floats, plan_.inputs() * floats, 1,
                                columns, (end - begin) * floats, to, width);
    // Transposes each input's weights to contiguous outputs, with taps in reverse order.
    for (std::int64_t c = begin; c < end; ++c, to += floats * width)
      gemm_f32_transpose(weights + (c * plan_.outputs() + first) * floats, floats, 1, columns, floats,
                         to + (floats - 1) * width, -width);
  }

  // Prefetches the pixels of a tile that will soon be read or written: kWinogradTile pixels of each row of a slice,
  // whose rows have `columns` pixels. Inlined: compilers may drop a function that computes nothing.
  template <int written>
  HWY_INLINE static void ask_for(const float* slice, std::int64_t begin, std::int64_t end, std::int64_t column,
                                 std::int64_t columns, std::int64_t channels) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* from = slice + (row * columns + column) * channels;
      for (std::int64_t i = 0; i < kWinogradTile * channels; i += CacheLine::kFloats)
        __builtin_prefetch(from + i, written, 2);
    }
  }

  // Calls visit(slice, tile) for a block; neighbouring tiles follow each other in memory.
  template <typename Visit>
  static void for_each_tile(const WinogradBlock& block, std::int64_t begin, std::int64_t end, Visit visit) {
    std::int64_t slice = begin / block.tiles, tile = begin % block.tiles;
    for (std::int64_t i = begin; i < end; ++i, ++tile) {
      if (tile == block.tiles) {
        tile = 0;
        ++slice;
      }
      base::yield_point();
      visit(slice, tile);
    }
  }

  void read_patches(const WinogradBlock& block, std::int64_t begin, std::int64_t end, const void* x,
                    float* before) const {
    for_each_tile(block, begin, end, [&](std::int64_t under, std::int64_t tile) {
      if (plan_.is_read(under)) read_patch(block, under, tile, x, before);
    });
  }

  void read_patch(const WinogradBlock& block, std::int64_t under, std::int64_t tile, const void* x,
                  float* before) const {
    const auto& [depth, lines, line] = plan_.geometry().axes;
    const std::int64_t slice = block.slice + under;
    float* parts = before + (tile * block.tile_slices + plan_.position(block, under)) * plan_.inputs();
    if (slice < 0 || slice >= depth.input) {
      for (std::int64_t part = 0; part < kWinogradParts; ++part)
        std::fill_n(parts + part * block.before_stride, plan_.inputs(), 0.0f);
      return;
    }
    const auto [image, row, column] = plan_.place(block.first + tile);
    const std::int64_t first = (image * depth.input + slice) * lines.input * line.input * plan_.inputs();
    WinogradPatch patch{.top = row - lines.pad_begin,
                        .left = column - line.pad_begin,
                        .rows = lines.input,
                        .columns = line.input,
                        .channels = plan_.inputs(),
                        .parts = parts,
                        .stride = block.before_stride};
    patch.row_step = lines.dilation;
    patch.column_step = line.dilation;
    if (reads_ahead_) {
      const WinogradPlan::Place ahead = plan_.place(block.first + (tile + kAhead) % block.tiles);
      const std::int64_t ahead_slice = std::min(slice + (tile + kAhead) / block.tiles, depth.input - 1),
                         top = ahead.row - lines.pad_begin;
      // The columns that the previous patch did not read.
      ask_for<0>(static_cast<const float*>(x) +
                     (ahead.image * depth.input + ahead_slice) * lines.input * line.input * plan_.inputs(),
                 std::max<std::int64_t>(top, 0), std::min(top + kWinogradPatch, lines.input),
                 ahead.column - line.pad_begin + kWinogradPatch - kWinogradTile, line.input, plan_.inputs());
    }
    patch.kind = rounded_data_ ? WinogradInput::bf16 : rounds_ ? WinogradInput::rounded_f32 : WinogradInput::f32;
    if (rounded_data_) patch.input = static_cast<const std::uint16_t*>(x) + first;
    else patch.input = static_cast<const float*>(x) + first;
    functions_->transform_input(patch);
  }

  static void round(float* values, std::int64_t count) {
    thread_local std::vector<std::uint16_t> numbers;
    numbers.resize(static_cast<std::size_t>(count));
    to_bf16_row(values, numbers.data(), count);
    from_bf16_row(numbers.data(), values, count);
  }

  void multiply(const WinogradBlock& block, std::int64_t part, const float* weights, const float* before,
                float* after) const {
    const float* rows[IndirectProduct::kMostRows];
    IndirectProduct product{.segments = 1,
                            .length = plan_.terms(),
                            .left = rows,
                            .columns = plan_.outputs(),
                            .bias = zeros_.data(),
                            .ldc = plan_.outputs()};
    product.right = weights + part * plan_.part_floats();
    const std::int64_t count = block.rows(), pieces = ceil_divide(count, isa_->rows),
                       tile_floats = block.tile_slices * plan_.inputs();
    const float *tile = before + part * block.before_stride, *row = tile;
    std::int64_t slice = 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t begin = count * piece / pieces, end = count * (piece + 1) / pieces;
      for (std::int64_t i = begin; i < end; ++i) {
        rows[i - begin] = row;
        if (++slice == block.result_slices) {
          slice = 0;
          row = tile += tile_floats;
        } else {
          row = tile + plan_.position(block, slice * plan_.geometry().axes[0].stride) * plan_.inputs();
        }
      }
      product.rows = end - begin;
      product.c = after + part * block.after_stride + begin * plan_.outputs();
      base::yield_point();
      isa_->multiply(product);
    }
  }

  void write_tiles(const WinogradBlock& block, std::int64_t begin, std::int64_t end, const float* after,
                   const float* bias, const void* z, void* y) const {
    for_each_tile(block, begin, end,
                  [&](std::int64_t slice, std::int64_t tile) { write_tile(block, slice, tile, after, bias, z, y); });
  }

  void write_tile(const WinogradBlock& block, std::int64_t slice, std::int64_t tile, const float* after,
                  const float* bias, const void* z, void* y) const {
    const auto& [depth, lines, line] = plan_.geometry().axes;
    const auto [image, row, column] = plan_.place(block.first + tile);
    const std::int64_t offset =
                           (((image * depth.output + block.result_slice + slice) * lines.output + row) * line.output +
                            column) *
                           plan_.outputs(),
                       stride = lines.dilation * line.output * plan_.outputs();
    WinogradTile out{.parts = after + (tile * block.result_slices + slice) * plan_.outputs(),
                     .stride = block.after_stride,
                     .channels = plan_.outputs(),
                     .bias = bias,
                     .low = activation_.low,
                     .high = activation_.high};
    out.rows = std::min(kWinogradTile, ceil_divide(lines.output - row, lines.dilation));
    out.columns = std::min(kWinogradTile, ceil_divide(line.output - column, line.dilation));
    out.column_stride = line.dilation * plan_.outputs();
    if (rounded_addend_ || rounded_result_) return write_rounded(out, offset, stride, z, y);
    if (reads_ahead_) {
      const WinogradPlan::Place ahead = plan_.place(block.first + (tile + kAhead) % block.tiles);
      const std::int64_t ahead_slice =
          std::min(block.result_slice + slice + (tile + kAhead) / block.tiles, depth.output - 1);
      ask_for<1>(static_cast<const float*>(y) +
                     (ahead.image * depth.output + ahead_slice) * lines.output * line.output * plan_.outputs(),
                 ahead.row, std::min(ahead.row + kWinogradTile, lines.output), ahead.column, line.output,
                 plan_.outputs());
    }
    out.addend = z == nullptr ? nullptr : static_cast<const float*>(z) + offset;
    out.output = static_cast<float*>(y) + offset;
    out.row_stride = stride;
    finish(out);
  }

  void finish(const WinogradTile& out) const {
    functions_->transform_output(out);
    if (activation_.after.function == nullptr) return;
    for (std::int64_t i = 0; i < out.rows; ++i) {
      float* row = out.output + i * out.row_stride;
      if (out.column_stride == plan_.outputs()) activation_.after(row, out.columns * plan_.outputs());
      else
        for (std::int64_t j = 0; j < out.columns; ++j) activation_.after(row + j * out.column_stride, plan_.outputs());
    }
  }

  // Computes the tile and its addend in float32 buffers, then rounds to the result.
  void write_rounded(WinogradTile out, std::int64_t offset, std::int64_t stride, const void* z, void* y) const {
    thread_local std::vector<float> result, addend;
    const std::int64_t count = out.columns * plan_.outputs(), column_stride = out.column_stride;
    result.resize(static_cast<std::size_t>(out.rows * count));
    out.output = result.data();
    out.row_stride = count;
    out.column_stride = plan_.outputs();
    // Calls run(offset in the floats, offset in the result, count) for each contiguous run.
    const auto for_each_run = [&](auto run) {
      const bool side_by_side = column_stride == plan_.outputs();
      for (std::int64_t i = 0; i < out.rows; ++i) {
        if (side_by_side) run(i * count, offset + i * stride, count);
        else
          for (std::int64_t j = 0; j < out.columns; ++j)
            run(i * count + j * plan_.outputs(), offset + i * stride + j * column_stride, plan_.outputs());
      }
    };
    if (z != nullptr) {
      addend.resize(result.size());
      out.addend = addend.data();
      for_each_run([&](std::int64_t here, std::int64_t there, std::int64_t length) {
        if (rounded_addend_) from_bf16_row(static_cast<const std::uint16_t*>(z) + there, addend.data() + here, length);
        else std::copy_n(static_cast<const float*>(z) + there, length, addend.data() + here);
      });
    }
    finish(out);
    for_each_run([&](std::int64_t here, std::int64_t there, std::int64_t length) {
      if (rounded_result_) round_to_bf16_row(result.data() + here, static_cast<std::uint16_t*>(y) + there, length);
      else std::copy_n(result.data() + here, length, static_cast<float*>(y) + there);
    });
  }

  const IndirectProductIsa* isa_;
  const WinogradFunctions* functions_;
  bool turned_;
  WinogradPlan plan_;
  ActivationPlan activation_;
  bool rounds_, rounded_data_, rounded_addend_, rounded_result_;  // to bfloat16 (ops/products/rounded_product.h)
  bool reads_ahead_ = false;
  std::vector<float> zeros_;
  LayerOperands operands_;
};

}  // namespace

KernelPointer make_winograd(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Winograd>(view, weights, false);
}

KernelPointer make_turned_winograd(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Winograd>(view, weights, true);
}

}  // namespace tessera::backends::cpu
