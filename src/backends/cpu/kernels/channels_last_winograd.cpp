// 3 × 3 convolution of stride 1 in float32 with the channels last, by Winograd's minimal filtering F(4 × 4, 3 × 3): a quarter of the
// multiplications. A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (arXiv:1509.09308).
//
// The result is cut into tiles of 4 × 4. Each depends on 6 × 6 inputs, whose transform's 36 parts are multiplied with those of the
// weights: 36 products [tiles × inputs] · [inputs × outputs], whose results are transformed back.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/gemm_f32.h"
#include "backends/cpu/indirect_product.h"
#include "backends/cpu/indirect_product_bf16.h"
#include "backends/cpu/kernels/channels_last.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd.h"
#include "base/checked.h"

#ifndef TESSERA_BACKENDS_CPU_CHANNELS_LAST_WINOGRAD
#define TESSERA_BACKENDS_CPU_CHANNELS_LAST_WINOGRAD
namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kTile = 4, kPatch = 6, kParts = kPatch * kPatch;

// A tile of the result and the patch of input that it depends on; what lies outside is zero, or is not written.
struct WinogradPatch {
  const float* input = nullptr;  // of the image
  std::int64_t top = 0, left = 0, rows = 0, columns = 0, channels = 0;
  float* parts = nullptr;        // part p of channel c at parts[p * stride + c]
  std::int64_t stride = 0;
};
struct WinogradTile {
  const float* parts = nullptr;
  std::int64_t stride = 0, channels = 0;
  const float* bias = nullptr;    // rounded up to whole vectors
  const float* addend = nullptr;  // as the output; or null
  float* output = nullptr;        // the tile's first element
  std::int64_t rows = 0, columns = 0, row_stride = 0;  // of the tile within the image
  float low = 0, high = 0;
};
struct WinogradFunctions {
  void (*transform_input)(const WinogradPatch&);
  void (*transform_output)(const WinogradTile&);
};

}  // namespace
}  // namespace tessera::backends::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/channels_last_winograd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);

HWY_INLINE V scaled(V x, float factor) { return hn::Mul(x, hn::Set(D(), factor)); }
// x + factor y
HWY_INLINE V plus(V x, V y, float factor) { return hn::MulAdd(y, hn::Set(D(), factor), x); }

// Bᵀ x of six vectors.
HWY_INLINE void input_line(const V (&x)[kPatch], V (&y)[kPatch]) {
  const V a = plus(x[4], x[2], -4), b = plus(x[3], x[1], -4);
  const V e = hn::Sub(x[4], x[2]), f = scaled(hn::Sub(x[3], x[1]), 2);
  y[0] = plus(plus(x[4], x[2], -5), x[0], 4);
  y[1] = hn::Add(a, b);
  y[2] = hn::Sub(a, b);
  y[3] = hn::Add(e, f);
  y[4] = hn::Sub(e, f);
  y[5] = plus(plus(x[5], x[3], -5), x[1], 4);
}

// Aᵀ x: six vectors to four.
HWY_INLINE void output_line(const V (&x)[kPatch], V (&y)[kTile]) {
  const V sum1 = hn::Add(x[1], x[2]), difference1 = hn::Sub(x[1], x[2]), sum2 = hn::Add(x[3], x[4]), difference2 = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(hn::Add(x[0], sum1), sum2);
  y[1] = plus(difference1, difference2, 2);
  y[2] = plus(sum1, sum2, 4);
  y[3] = plus(hn::Add(difference1, x[5]), difference2, 8);
}

// A vector of channels of a patch. `inside`: all of the patch is within the image; `whole`: all lanes are channels.
template <bool inside, bool whole>
HWY_INLINE void transform_input(const WinogradPatch& patch, std::int64_t c) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, patch.channels - c)));
  HWY_ALIGN float half[kParts * kLanes];
  for (std::int64_t j = 0; j < kPatch; ++j) {
    V x[kPatch], y[kPatch];
    const std::int64_t column = patch.left + j;
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < kPatch; ++i) {
      const std::int64_t row = patch.top + i;
      if (!inside && (row < 0 || row >= patch.rows || column < 0 || column >= patch.columns)) {
        x[i] = hn::Zero(d);
        continue;
      }
      const float* from = patch.input + (row * patch.columns + column) * patch.channels + c;
      x[i] = whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from);
    }
    input_line(x, y);
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < kPatch; ++i) hn::Store(y[i], d, half + (i * kPatch + j) * kLanes);
  }
  for (std::int64_t i = 0; i < kPatch; ++i) {
    V x[kPatch], y[kPatch];
#pragma GCC unroll 6
    for (std::int64_t j = 0; j < kPatch; ++j) x[j] = hn::Load(d, half + (i * kPatch + j) * kLanes);
    input_line(x, y);
#pragma GCC unroll 6
    for (std::int64_t j = 0; j < kPatch; ++j) {
      float* to = patch.parts + (i * kPatch + j) * patch.stride + c;
      if (whole) hn::StoreU(y[j], d, to);
      else hn::BlendedStore(y[j], mask, d, to);
    }
  }
}

void transform_input(const WinogradPatch& patch) {
  const bool inside = patch.top >= 0 && patch.left >= 0 && patch.top + kPatch <= patch.rows && patch.left + kPatch <= patch.columns;
  std::int64_t c = 0;
  for (; c + kLanes <= patch.channels; c += kLanes) inside ? transform_input<true, true>(patch, c) : transform_input<false, true>(patch, c);
  if (c < patch.channels) transform_input<false, false>(patch, c);
}

// A vector of channels of a tile.
template <bool whole>
HWY_INLINE void transform_output(const WinogradTile& tile, std::int64_t c) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, tile.channels - c)));
  const auto load = [&](const float* from) HWY_ATTR { return whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from); };
  HWY_ALIGN float half[kTile * kPatch * kLanes];
  for (std::int64_t j = 0; j < kPatch; ++j) {
    V x[kPatch], y[kTile];
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < kPatch; ++i) x[i] = load(tile.parts + (i * kPatch + j) * tile.stride + c);
    output_line(x, y);
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kTile; ++i) hn::Store(y[i], d, half + (i * kPatch + j) * kLanes);
  }
  const V low = hn::Set(d, tile.low), high = hn::Set(d, tile.high), bias = hn::LoadU(d, tile.bias + c);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    V x[kPatch], y[kTile];
#pragma GCC unroll 6
    for (std::int64_t j = 0; j < kPatch; ++j) x[j] = hn::Load(d, half + (i * kPatch + j) * kLanes);
    output_line(x, y);
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kTile; ++j) {
      if (j >= tile.columns) break;
      const std::int64_t offset = i * tile.row_stride + j * tile.channels + c;
      V value = hn::Add(y[j], bias);
      if (tile.addend != nullptr) value = hn::Add(value, load(tile.addend + offset));
      value = hn::IfThenElse(hn::Lt(value, low), low, value);
      value = hn::IfThenElse(hn::Gt(value, high), high, value);
      if (whole) hn::StoreU(value, d, tile.output + offset);
      else hn::BlendedStore(value, mask, d, tile.output + offset);
    }
  }
}

void transform_output(const WinogradTile& tile) {
  std::int64_t c = 0;
  for (; c + kLanes <= tile.channels; c += kLanes) transform_output<true>(tile, c);
  if (c < tile.channels) transform_output<false>(tile, c);
}

}  // namespace

const WinogradFunctions* winograd_functions() {
  static constexpr WinogradFunctions functions{transform_input, transform_output};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(winograd_functions);

using base::ceil_divide;
using base::round_up;

// Of both transforms of the tiles that are worked on at a time: by one thread, where they fit into its second-level cache and weights
// are read for enough tiles, otherwise by all threads together.
constexpr std::int64_t kOwnFloats = 128 * 1024, kBlockFloats = 512 * 1024;
constexpr std::int64_t kFewestOwnTiles = 16, kFewestOwnBlocks = 8;
constexpr std::int64_t kFewestTiles = 12;          // with fewer the transformed weights are read for too little
constexpr std::int64_t kFewestChannels = 16, kFewestChannelsOfBf16 = 32;
constexpr std::int64_t kLineFloats = 16;
struct alignas(64) CacheLine {
  float floats[kLineFloats];
};
constexpr std::int64_t kWidestPanel = 32;  // columns of a panel in any instruction set

class Winograd final : public Kernel {
 public:
  Winograd(const ops::NodeView& view, WeightStore& store)
      : isa_(&indirect_product_isa()), functions_(HWY_DYNAMIC_DISPATCH(winograd_functions)()), geometry_(channels_last_conv_geometry(view)), activation_(plan_activation(view)),
        rounds_(view.has_attribute("precision")), rounded_data_(view.input(0).dtype == DType::bf16), rounded_addend_(view.has_input(3) && view.input(3).dtype == DType::bf16),
        rounded_result_(view.output(0).dtype == DType::bf16) {
    const Tensor& weights = *view.constant(1);
    inputs_ = weights.shape()[1];
    outputs_ = weights.shape()[0];
    tile_rows_ = ceil_divide(geometry_.axes[1].output, kTile);
    tile_columns_ = ceil_divide(geometry_.axes[2].output, kTile);
    const std::int64_t own = kOwnFloats / kParts / (inputs_ + outputs_);
    own_blocks_ = own >= kFewestOwnTiles && tiles() / own >= kFewestOwnBlocks;
    block_ = std::max<std::int64_t>((own_blocks_ ? own : kBlockFloats / kParts / (inputs_ + outputs_)) / isa_->rows * isa_->rows, isa_->rows);
    block_ = ceil_divide(tiles(), ceil_divide(tiles(), block_));
    bias_.assign(static_cast<std::size_t>(round_up(outputs_, isa_->lanes)), 0.0f);
    zeros_ = bias_;
    if (view.has_input(2)) std::copy_n(view.constant(2)->data<float>(), outputs_, bias_.data());
    weights_ = store.find_or_pack(weights, fmt::format("channels_last_winograd_v1:{}{}", isa_->name, rounds_ ? ":bf16" : ""), base::checked_multiply(base::checked_multiply(part_floats(), kParts), 4),
                                  [&](std::byte* to) { pack(rounds_ ? rounded(weights) : weights, reinterpret_cast<float*>(to)); });
  }

  std::int64_t scratch_bytes() const override { return own_blocks_ ? 0 : base::checked_multiply(kParts * 4, part_stride(inputs_) + part_stride(outputs_)); }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const void* x = context.input(0).raw();
    const void* z = context.has_input(3) ? context.input(3).raw() : nullptr;
    void* y = context.output(0).mutable_raw();
    if (own_blocks_) return run_own_blocks(context, x, z, y);
    auto* before = reinterpret_cast<float*>(context.scratch());
    float* after = before + kParts * part_stride(inputs_);
    for (std::int64_t first = 0; first < tiles(); first += block_) {
      const std::int64_t count = std::min(block_, tiles() - first);
      context.parallel_for(count, 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) read_tile(first + i, x, before + i * inputs_);
      });
      const double part_operations = 2.0 * static_cast<double>(count) * static_cast<double>(inputs_) * static_cast<double>(outputs_);
      context.parallel_for(kParts, std::clamp<std::int64_t>(static_cast<std::int64_t>(1e6 / part_operations), 1, kParts / 2), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) multiply(part, count, before, after);
      });
      context.parallel_for(count, 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) write_tile(first + i, after + i * outputs_, z, y);
      });
    }
  }

 private:
  std::int64_t part_floats() const { return round_up(outputs_, isa_->lanes) * inputs_; }
  // From a part of a block to the next one: an odd number of cache lines, so that the parts of a tile fall into different sets.
  std::int64_t part_stride(std::int64_t channels) const {
    return (ceil_divide(block_ * channels, kLineFloats) | 1) * kLineFloats;
  }
  std::int64_t tiles() const { return geometry_.batch * tile_rows_ * tile_columns_; }

  void run_own_blocks(KernelContext& context, const void* x, const void* z, void* y) const {
    context.parallel_for(ceil_divide(tiles(), block_), 1, [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<CacheLine> transforms;  // vectors should not lie across two lines
      transforms.resize(static_cast<std::size_t>(kParts * (part_stride(inputs_) + part_stride(outputs_)) / kLineFloats));
      float *before = transforms.data()->floats, *after = before + kParts * part_stride(inputs_);
      for (std::int64_t first = begin * block_; first < std::min(tiles(), end * block_); first += block_) {
        const std::int64_t count = std::min(block_, tiles() - first);
        for (std::int64_t i = 0; i < count; ++i) read_tile(first + i, x, before + i * inputs_);
        for (std::int64_t part = 0; part < kParts; ++part) multiply(part, count, before, after);
        for (std::int64_t i = 0; i < count; ++i) write_tile(first + i, after + i * outputs_, z, y);
      }
    });
  }

  // G g Gᵀ of the weights g of every pair of channels: [part][panel][input][output], outputs rounded up to whole vectors.
  void pack(const Tensor& weights, float* to) const {
    constexpr double g[kPatch][3] = {{1.0 / 4, 0, 0}, {-1.0 / 6, -1.0 / 6, -1.0 / 6}, {-1.0 / 6, 1.0 / 6, -1.0 / 6}, {1.0 / 24, 1.0 / 12, 1.0 / 6}, {1.0 / 24, -1.0 / 12, 1.0 / 6}, {0, 0, 1}};
    for (std::int64_t first = 0; first < outputs_; first += isa_->columns) {
      const std::int64_t columns = std::min(isa_->columns, outputs_ - first), width = round_up(columns, isa_->lanes);
      for (std::int64_t c = 0; c < inputs_; ++c) {
        // All columns of the panel at a time; those beyond the outputs stay zeros.
        double window[9][kWidestPanel] = {}, half[3][kWidestPanel];
        for (std::int64_t j = 0; j < columns; ++j) {
          const float* from = weights.data<float>() + ((first + j) * inputs_ + c) * 9;
          for (std::int64_t t = 0; t < 9; ++t) window[t][j] = from[t];
        }
        for (std::int64_t i = 0; i < kPatch; ++i) {
          for (std::int64_t k = 0; k < 3; ++k) {
            for (std::int64_t j = 0; j < width; ++j) half[k][j] = g[i][0] * window[k][j] + g[i][1] * window[3 + k][j] + g[i][2] * window[6 + k][j];
          }
          for (std::int64_t k = 0; k < kPatch; ++k) {
            float* part = to + (i * kPatch + k) * part_floats() + first * inputs_ + c * width;
            for (std::int64_t j = 0; j < width; ++j) part[j] = static_cast<float>(half[0][j] * g[k][0] + half[1][j] * g[k][1] + half[2][j] * g[k][2]);
          }
        }
      }
    }
  }

  struct Place {
    std::int64_t image, row, column;  // of the tile's first output
  };
  Place place(std::int64_t tile) const {
    return {tile / tile_columns_ / tile_rows_, tile / tile_columns_ % tile_rows_ * kTile, tile % tile_columns_ * kTile};
  }

  void read_tile(std::int64_t tile, const void* x, float* parts) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const auto [image, row, column] = place(tile);
    const std::int64_t first = image * geometry_.inputs() * inputs_;
    WinogradPatch patch{.top = row - lines.pad_begin, .left = column - line.pad_begin, .rows = lines.input, .columns = line.input, .channels = inputs_, .parts = parts, .stride = part_stride(inputs_)};
    if (!rounds_) {
      patch.input = static_cast<const float*>(x) + first;
      return functions_->transform_input(patch);
    }
    // A copy of the patch in floats, with zeros where it is outside.
    thread_local std::vector<float> floats;
    floats.assign(static_cast<std::size_t>(kParts * inputs_), 0.0f);
    const std::int64_t begin = std::max<std::int64_t>(0, patch.left), count = std::min(line.input, patch.left + kPatch) - begin;
    for (std::int64_t i = 0; i < kPatch && count > 0; ++i) {
      if (patch.top + i < 0 || patch.top + i >= lines.input) continue;
      const std::int64_t from = first + ((patch.top + i) * line.input + begin) * inputs_;
      copy_rounded(x, from, count * inputs_, floats.data() + (i * kPatch + begin - patch.left) * inputs_);
    }
    patch.input = floats.data();
    patch.top = patch.left = 0;
    patch.rows = patch.columns = kPatch;
    functions_->transform_input(patch);
  }

  // Data as the product takes it.
  void copy_rounded(const void* x, std::int64_t from, std::int64_t count, float* to) const {
    if (rounded_data_) return from_bf16_row(static_cast<const std::uint16_t*>(x) + from, to, count);
    thread_local std::vector<std::uint16_t> numbers;
    numbers.resize(static_cast<std::size_t>(count));
    to_bf16_row(static_cast<const float*>(x) + from, numbers.data(), count);
    from_bf16_row(numbers.data(), to, count);
  }

  static Tensor rounded(const Tensor& weights) {
    Tensor result(DType::f32, weights.shape());
    std::vector<std::uint16_t> numbers(static_cast<std::size_t>(weights.elements()));
    to_bf16_row(weights.data<float>(), numbers.data(), weights.elements());
    from_bf16_row(numbers.data(), result.mutable_data<float>(), weights.elements());
    return result;
  }

  void multiply(std::int64_t part, std::int64_t count, const float* before, float* after) const {
    const float* rows[IndirectProduct::kMostRows];
    const std::int64_t pieces = ceil_divide(count, isa_->rows);
    IndirectProduct product{.segments = 1, .length = inputs_, .left = rows, .columns = outputs_, .bias = zeros_.data(), .ldc = outputs_};
    product.right = reinterpret_cast<const float*>(weights_->data.get()) + part * round_up(outputs_, isa_->lanes) * inputs_;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t begin = count * piece / pieces, end = count * (piece + 1) / pieces;
      for (std::int64_t i = begin; i < end; ++i) rows[i - begin] = before + part * part_stride(inputs_) + i * inputs_;
      product.rows = end - begin;
      product.c = after + part * part_stride(outputs_) + begin * outputs_;
      isa_->multiply(product);
    }
  }

  void write_tile(std::int64_t tile, const float* parts, const void* z, void* y) const {
    const auto& [depth, lines, line] = geometry_.axes;
    const auto [image, row, column] = place(tile);
    const std::int64_t offset = ((image * lines.output + row) * line.output + column) * outputs_, stride = line.output * outputs_;
    WinogradTile out{.parts = parts, .stride = part_stride(outputs_), .channels = outputs_, .bias = bias_.data(), .low = activation_.low, .high = activation_.high};
    out.rows = std::min(kTile, lines.output - row);
    out.columns = std::min(kTile, line.output - column);
    if (rounded_addend_ || rounded_result_) return write_rounded(out, offset, stride, z, y);
    out.addend = z == nullptr ? nullptr : static_cast<const float*>(z) + offset;
    out.output = static_cast<float*>(y) + offset;
    out.row_stride = stride;
    finish(out);
  }

  void finish(const WinogradTile& out) const {
    functions_->transform_output(out);
    if (activation_.after.function == nullptr) return;
    for (std::int64_t i = 0; i < out.rows; ++i) activation_.after(out.output + i * out.row_stride, out.columns * outputs_);
  }

  // The tile, and what is added to it, in floats of its own first.
  void write_rounded(WinogradTile out, std::int64_t offset, std::int64_t stride, const void* z, void* y) const {
    thread_local std::vector<float> result, addend;
    const std::int64_t count = out.columns * outputs_;
    result.resize(static_cast<std::size_t>(out.rows * count));
    out.output = result.data();
    out.row_stride = count;
    if (z != nullptr) {
      addend.resize(result.size());
      out.addend = addend.data();
      for (std::int64_t i = 0; i < out.rows; ++i) {
        if (rounded_addend_) from_bf16_row(static_cast<const std::uint16_t*>(z) + offset + i * stride, addend.data() + i * count, count);
        else std::copy_n(static_cast<const float*>(z) + offset + i * stride, count, addend.data() + i * count);
      }
    }
    finish(out);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      if (rounded_result_) to_bf16_row(result.data() + i * count, static_cast<std::uint16_t*>(y) + offset + i * stride, count);
      else std::copy_n(result.data() + i * count, count, static_cast<float*>(y) + offset + i * stride);
    }
  }

  const IndirectProductIsa* isa_;
  const WinogradFunctions* functions_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  bool rounds_, rounded_data_, rounded_addend_, rounded_result_;  // to bfloat16 (ops/rounded_product.h)
  std::int64_t inputs_, outputs_, tile_rows_, tile_columns_, block_;  // block_: tiles at a time
  bool own_blocks_ = false;                                           // of every thread
  std::vector<float> bias_, zeros_;
  std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace

namespace {

std::string reject_winograd(const ops::NodeView& view) {
  const Shape& w = view.input(1).shape;
  if (w.size() != 4 || w[2] != 3 || w[3] != 3 || view.integer("group") != 1) return "no window of 3 x 3";
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  for (const std::size_t i : {1, 2}) {
    if (geometry.axes[i].stride != 1 || geometry.axes[i].dilation != 1) return "strides or dilations";
  }
  return geometry.batch * geometry.outputs() * w[0] * w[1] == 0 ? "nothing to compute" : "";
}

std::string avoid_winograd(const ops::NodeView& view, std::int64_t fewest_channels) {
  const Shape& w = view.input(1).shape;
  if (std::min(w[0], w[1]) < fewest_channels) return "few channels";
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  double tiles = static_cast<double>(geometry.batch);
  for (const std::size_t i : {1, 2}) tiles *= static_cast<double>(ceil_divide(geometry.axes[i].output, kTile));
  if (tiles < static_cast<double>(kFewestTiles)) return "few tiles of 4 x 4";
  // What a tile reaches beyond the result is computed for nothing.
  const double saved = 9.0 * static_cast<double>(geometry.batch * geometry.outputs()) / (static_cast<double>(kParts) * tiles);
  return saved < 2 ? "thin results" : "";
}

}  // namespace

std::string reject_channels_last_winograd(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_conv(view); !reason.empty()) return reason;
  return reject_winograd(view);
}
std::string avoid_channels_last_winograd(const ops::NodeView& view) { return avoid_winograd(view, kFewestChannels); }

std::string reject_bf16_winograd(const ops::NodeView& view) {
  if (std::string reason = reject_bf16_conv(view); !reason.empty()) return reason;
  return reject_winograd(view);
}
// A quarter of the multiplications in float32 against all of them at twice the speed, where the machine has instructions for these.
std::string avoid_bf16_winograd(const ops::NodeView& view) { return avoid_winograd(view, active_bf16() ? kFewestChannelsOfBf16 : kFewestChannels); }

KernelPointer make_channels_last_winograd(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Winograd>(view, weights);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
