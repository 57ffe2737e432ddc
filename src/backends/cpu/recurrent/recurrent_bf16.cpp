// LSTM and GRU of bfloat16: data, weights and the hidden state that R multiplies are rounded; sums, gates and the
// states carried from step to step are float32.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "backends/cpu/element_wise/rounding_bf16.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/product_split.h"
#include "backends/cpu/products/tile_rows.h"
#include "backends/cpu/products/windows/indirect_product_bf16.h"
#include "backends/cpu/recurrent/kernels.h"
#include "backends/cpu/recurrent/recurrent_layer.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using Product = IndirectProductBf16;

class Bf16Products {
 public:
  using Element = std::uint16_t;
  static constexpr std::int64_t kWeightBytes = 2;

  Bf16Products(const ops::NodeView& view, WeightStore& store, const RecurrentLayer& layer)
      : layer_(layer),
        multiplier_(multiplier_bf16(layer.steps())),
        recur_(multiplier_bf16(layer.batch)),
        features_(base::round_up(layer.features, Product::kGroup)),
        w_(pack(store, *view.constant(1), layer.features, "bf16_recurrent_w", 1)),
        r_(pack(store, *view.constant(2), layer.hidden, "bf16_recurrent_r", layer.chunks())),
        zeros_(static_cast<std::size_t>(lanes(layer.gates * layer.units)), 0.0f) {
    constexpr double kChunkOperations = 1.2e6, kTileChunkOperations = 1e7;
    split_ = {.rows = layer.steps(),
              .columns = layer.rows(),
              .tile_rows = multiplier_.tile_rows,
              .tile_columns = Product::kColumns};
    split_.depth_step = multiplier_.depth_step;
    split_.tile_registers = multiplier_.tiles;
    split_.segment_groups = features_ / Product::kGroup;
    split_.choose(
        2.0 * static_cast<double>(split_.rows) * static_cast<double>(split_.columns) * static_cast<double>(features_),
        multiplier_.tiles ? kTileChunkOperations : kChunkOperations, Product::kColumns * features_ * 2,
        base::checked_multiply(split_.rows, features_ * 2), features_ * 2);
  }

  std::int64_t scratch_bytes() const {
    return layer_.features == features_ ? 0 : base::checked_multiply(layer_.steps(), features_ * 2);
  }
  std::int64_t hidden_stride() const { return base::round_up(layer_.hidden, Product::kGroup); }

  RecurrentWeights weights(KernelContext&, std::byte*) const { return {w_->data.get(), r_->data.get()}; }
  // Returns the data as rows of whole pairs.
  const Element* data(KernelContext& context, std::byte* scratch) const {
    const auto* x = static_cast<const Element*>(context.input(0).raw());
    if (layer_.features == features_) return x;
    auto* to = reinterpret_cast<Element*>(scratch);
    context.parallel_for(layer_.steps(), std::max<std::int64_t>(1, 32768 / features_),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i)
                             *std::copy_n(x + i * layer_.features, layer_.features, to + i * features_) = 0;
                         });
    return to;
  }

  void project(KernelContext& context, const std::byte* weights, const Element* x, std::int64_t direction,
               const float* bias, float* to) const {
    const auto* w = reinterpret_cast<const Element*>(weights) + direction * lanes(layer_.rows()) * features_;
    context.parallel_for(split_.chunks(), split_.grain, [&](std::int64_t begin, std::int64_t end) {
      const TileScope scope;
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        split_.for_each_tile(chunk, [&](const ProductTile& tile) {
          const Element* left[kProductRows];
          Product product = product_of(x + tile.row * features_, features_, tile.rows, left,
                                       w + tile.column * features_, tile.columns);
          product.tile_rows = multiplier_.tile_rows;
          product.groups = tile.depth.groups;
          product.skipped = tile.depth.group * Product::kGroup;
          product.first_group = tile.depth.group;
          product.begins = tile.depth.begins;
          product.ends = tile.depth.ends;
          if (float* sums = split_.partial_sums<float>(); sums != nullptr) product.partial = sums + tile.partial;
          product.bias = bias + tile.column;
          product.c = to + tile.row * layer_.rows() + tile.column;
          product.ldc = layer_.rows();
          multiplier_.multiply(product);
        });
      }
    });
  }

  void recur(const std::byte* weights, std::int64_t direction, std::int64_t chunk, RecurrentPart, const Element* hidden,
             float* to) const {
    const std::int64_t depth = hidden_stride(), columns = layer_.gates * layer_.units_of(chunk);
    const auto* r = reinterpret_cast<const Element*>(weights) +
                    (direction * layer_.chunks() + chunk) * lanes(layer_.gates * layer_.units) * depth;
    const TileScope scope;
    for (std::int64_t row = 0; row < layer_.batch; row += recur_.tile_rows) {
      base::yield_point();
      const Element* left[kProductRows];
      Product product =
          product_of(hidden + row * depth, depth, std::min(recur_.tile_rows, layer_.batch - row), left, r, columns);
      product.tile_rows = recur_.tile_rows;
      product.bias = zeros_.data();
      product.c = to + row * columns;
      product.ldc = columns;
      recur_.multiply(product);
    }
  }

  static void widen(const Element* from, float* to, std::int64_t count) { from_bf16_row(from, to, count); }
  static void round(const float* from, Element* to, std::int64_t count) { to_bf16_row(from, to, count); }

 private:
  static std::int64_t lanes(std::int64_t columns) { return base::round_up(columns, Product::kLanes); }

  // The product of `rows` contiguous rows of `depth` numbers and panels of the same depth.
  static Product product_of(const Element* rows_begin, std::int64_t depth, std::int64_t rows, const Element** left,
                            const Element* right, std::int64_t columns) {
    for (std::int64_t i = 0; i < rows; ++i) left[i] = rows_begin + i * depth;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return {.rows = rows,
            .segments = 1,
            .groups = depth / Product::kGroup,
            .left = left,
            .right = right,
            .panel_groups = depth / Product::kGroup,
            .columns = columns,
            .low = -kInfinity,
            .high = kInfinity};
  }

  // Packs [directions, rows, columns] as panels of right operands [columns, rows in chunk order], as a whole or per
  // chunk: [panel][pair of columns][row][2].
  std::shared_ptr<const PackedWeights> pack(WeightStore& store, const Tensor& weights, std::int64_t columns,
                                            std::string_view name, std::int64_t parts) const {
    const std::string key = fmt::format("{}_v1:{}:{}", name, layer_.hidden, layer_.units);
    const std::int64_t part_rows = parts == 1 ? layer_.rows() : layer_.gates * layer_.units,
                       depth = base::round_up(columns, Product::kGroup), pairs = depth / 2;
    const std::int64_t bytes = base::checked_multiply(lanes(part_rows), depth * 2);
    return store.find_or_pack(
        weights, key, base::checked_multiply(bytes, parts * layer_.directions),
        [&](const Tensor& contents, std::byte* to) {
          static_assert(Product::kGroup == 2);
          const auto count = static_cast<std::size_t>(base::checked_multiply(layer_.rows(), depth));
          std::vector<Element> reordered(count, 0);
          std::vector<float> as_pairs(count / 2);  // bits of pairs, which are only copied
          for (std::int64_t direction = 0; direction < layer_.directions; ++direction) {
            layer_.reorder(static_cast<const Element*>(contents.raw()) + direction * layer_.rows() * columns, columns,
                           reordered.data(), depth);
            std::memcpy(as_pairs.data(), reordered.data(), count * 2);
            for (std::int64_t part = 0; part < parts; ++part) {
              auto* panels = reinterpret_cast<float*>(to + (direction * parts + part) * bytes);
              std::memset(panels, 0, static_cast<std::size_t>(bytes));
              const std::int64_t first = part * part_rows, rows = std::min(part_rows, layer_.rows() - first);
              for (std::int64_t row = 0; row < rows; row += Product::kColumns) {
                const std::int64_t here = std::min(Product::kColumns, rows - row);
                gemm_f32_transpose(as_pairs.data() + (first + row) * pairs, pairs, 1, here, pairs, panels + row * pairs,
                                   lanes(here));
              }
            }
          }
        });
  }

  RecurrentLayer layer_;
  MultiplierBf16 multiplier_, recur_;  // of all steps, of one step
  std::int64_t features_;              // in whole pairs
  std::shared_ptr<const PackedWeights> w_, r_;
  std::vector<float> zeros_;
  ProductSplit split_;
};

}  // namespace

KernelPointer make_recurrent_bf16(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Recurrent<Bf16Products>>(view, weights);
}

}  // namespace tessera::backends::cpu
