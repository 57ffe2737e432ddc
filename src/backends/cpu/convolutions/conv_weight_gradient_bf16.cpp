// The gradient of a channels-last convolution with respect to its weights, from data rounded to bfloat16: W[m, c, tap]
// = Σ over positions of G[position, m] · X[position under the tap, c], as a product by tile registers or vectors with
// float32 sums (indirect_product_bf16.h).
//
// The product's rows are (tap, c), its columns m, its depth the positions of a grid that contains both X and G: the
// grid of the outputs, widened so that X with its padding fits. X is transposed to one line of the grid per channel;
// the inputs under a tap are then the same line at an offset, and windows are never gathered. With strides larger than
// 1 there is one grid per phase: the taps whose positions in X have the same remainder. G lies on the same grid, with
// zeros where there is no output, in the order of packed weights. The depth is cut into slabs that fit the cache;
// between slabs, sums are kept in scratch memory. Sums run over the positions in an order that depends on the shape
// alone.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/turn_bf16.h"
#include "backends/cpu/convolutions/weight_gradient.h"
#include "backends/cpu/element_wise/rounding_bf16.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/windows/indirect_product_bf16.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;
using Product = IndirectProductBf16;

constexpr std::int64_t kSlabBytes = 1 << 20;                           // approximate bytes of X and G per slab
constexpr std::int64_t kFewestPositions = 512, kMostPositions = 4096;  // of a slab
constexpr std::int64_t kPanelsTogether = 4;                            // panels per work item

// The grid along an axis: `pitch` positions, of which the first `axis.output` are those of G. Position i of phase r is
// position (i + least) · stride + r of X, so a tap reads X at an offset from G's position. The last position that some
// tap reads is followed by the padding before the next line, which both lines share.
struct GridAxis {
  ops::WindowAxis axis;
  std::int64_t least = 0, pitch = 1;

  std::int64_t remainder(std::int64_t tap) const {
    const std::int64_t start = tap * axis.dilation - axis.pad_begin;
    return ((start % axis.stride) + axis.stride) % axis.stride;
  }
  std::int64_t distance(std::int64_t tap) const {
    return (tap * axis.dilation - axis.pad_begin - remainder(tap)) / axis.stride;
  }

  explicit GridAxis(const ops::WindowAxis& of) : axis(of) {
    std::int64_t most = 0;
    for (std::int64_t tap = 0; tap < axis.kernel; ++tap) {
      least = std::min(least, distance(tap));
      most = std::max(most, distance(tap));
    }
    pitch = std::max(axis.output + most, ceil_divide(axis.input, axis.stride) - least);
  }
};

class Grid {
 public:
  explicit Grid(const ChannelsLastGeometry& geometry)
      : axes{GridAxis(geometry.axes[0]), GridAxis(geometry.axes[1]), GridAxis(geometry.axes[2])},
        positions(geometry.batch * axes[0].pitch * axes[1].pitch * axes[2].pitch) {
    for (std::int64_t tap = 0; tap < geometry.taps(); ++tap) {
      const std::array<std::int64_t, 3> index = indices(geometry, tap);
      std::array<std::int64_t, 3> remainder;
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        remainder[i] = axes[i].remainder(index[i]);
        offset = offset * axes[i].pitch + axes[i].distance(index[i]) - axes[i].least;
      }
      auto phase = std::ranges::find(phases, remainder);
      if (phase == phases.end()) phase = phases.insert(phases.end(), remainder);
      taps.push_back({phase - phases.begin(), offset});
      farthest = std::max(farthest, offset);
    }
  }

  // A position as batch and coordinates.
  struct Place {
    std::int64_t batch;
    std::array<std::int64_t, 3> at;
  };
  Place place(std::int64_t position) const {
    Place result{position, {}};
    for (std::size_t i = 3; i-- > 0;) {
      result.at[i] = result.batch % axes[i].pitch;
      result.batch /= axes[i].pitch;
    }
    return result;
  }
  void move_on(Place& place) const {
    for (std::size_t i = 2; ++place.at[i] == axes[i].pitch; --i) {
      place.at[i] = 0;
      if (i > 0) continue;
      ++place.batch;
      return;
    }
  }

  std::array<GridAxis, 3> axes;
  std::int64_t positions, farthest = 0;
  struct Tap {
    std::int64_t phase, offset;
  };
  std::vector<Tap> taps;
  std::vector<std::array<std::int64_t, 3>> phases;  // remainders along each axis

 private:
  static std::array<std::int64_t, 3> indices(const ChannelsLastGeometry& geometry, std::int64_t tap) {
    return {tap / geometry.axes[2].kernel / geometry.axes[1].kernel,
            tap / geometry.axes[2].kernel % geometry.axes[1].kernel, tap % geometry.axes[2].kernel};
  }
};

class ConvWeightGradientBf16 final : public Kernel {
 public:
  explicit ConvWeightGradientBf16(const ops::NodeView& view)
      : geometry_(weight_gradient_geometry(view)),
        grid_(geometry_),
        groups_(view.integer("group")),
        inputs_(geometry_.channels / groups_),
        outputs_(view.output(0).shape[0] / groups_),
        rounds_(view.output(0).dtype == DType::bf16),
        rows_(geometry_.taps() * inputs_),
        multiplier_(multiplier_bf16(rows_)),
        panels_(ceil_divide(outputs_, Product::kColumns)),
        zeros_(static_cast<std::size_t>(std::max(geometry_.channels, groups_ * outputs_)), 0) {
    const std::int64_t bytes = (lines() + groups_ * lanes()) * 2;
    positions_ = round_up(std::min(grid_.positions, std::clamp(kSlabBytes / bytes, kFewestPositions, kMostPositions)),
                          kRowsTurnedTogether);
    // An odd number of cache lines, so that the lines of neighbouring channels use all sets of the cache.
    const std::int64_t read = round_up(positions_ + grid_.farthest, kRowsTurnedTogether);
    line_ = (read / kRowsTurnedTogether | 1) * kRowsTurnedTogether;
    turned_ = read / kRowsTurnedTogether;
  }

  std::int64_t scratch_bytes() const override {
    return base::checked_add(base::checked_add(bias_bytes(), line_bytes()),
                             base::checked_add(packed_bytes(), base::checked_multiply(groups_, sums_bytes())));
  }

  void run(KernelContext& context) const override {
    Tensor& w = context.output(0);
    if (w.elements() == 0) return;
    if (grid_.positions == 0) {
      std::memset(w.mutable_raw(), 0, static_cast<std::size_t>(w.bytes()));
      return;
    }
    Room room;
    std::byte* scratch = context.scratch();
    room.bias = reinterpret_cast<float*>(scratch);
    room.lines = reinterpret_cast<std::uint16_t*>(scratch += bias_bytes());
    room.packed = reinterpret_cast<std::uint16_t*>(scratch += line_bytes());
    room.sums = reinterpret_cast<float*>(scratch += packed_bytes());
    std::fill_n(room.bias, bias_bytes() / 4, 0.0f);
    for (std::int64_t first = 0; first < grid_.positions; first += positions_) {
      turn_data(context, first, room);
      pack_gradient(context, first, room);
      multiply(context, first, room);
    }
    store(context, room);
  }

 private:
  struct Room {
    float* bias;            // zeros
    std::uint16_t* lines;   // [phase][channel][line_]
    std::uint16_t* packed;  // [group][panel][pair of positions][column][2]
    float* sums;            // [group][block of rows][panel][row][column]
  };

  std::int64_t lanes() const { return round_up(outputs_, Product::kLanes); }  // of a group
  std::int64_t lines() const { return static_cast<std::int64_t>(grid_.phases.size()) * geometry_.channels; }
  std::int64_t blocks() const { return ceil_divide(rows_, multiplier_.tile_rows); }
  std::int64_t bias_bytes() const { return round_up(lanes() * 4, 64); }
  std::int64_t line_bytes() const { return base::checked_multiply(lines(), line_ * 2); }
  std::int64_t packed_bytes() const { return base::checked_multiply(groups_ * lanes(), positions_ * 2); }
  std::int64_t block_floats() const { return panels_ * multiplier_.tile_rows * Product::kColumns; }
  std::int64_t sums_bytes() const { return base::checked_multiply(blocks(), block_floats() * 4); }

  // Transposes X from grid position `first` on to one line per phase and channel.
  void turn_data(KernelContext& context, std::int64_t first, const Room& room) const {
    const auto* x = static_cast<const std::uint16_t*>(context.input(0).raw());
    const auto phases = static_cast<std::int64_t>(grid_.phases.size());
    context.parallel_for(phases * turned_, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t phase = i / turned_, block = i % turned_ * kRowsTurnedTogether;
        const std::uint16_t* rows[kRowsTurnedTogether];
        Grid::Place place = grid_.place(first + block);
        for (const std::uint16_t*& row : rows) {
          row = pixel(x, place, grid_.phases[static_cast<std::size_t>(phase)]);
          grid_.move_on(place);
        }
        turn_rows_bf16(rows, geometry_.channels, room.lines + phase * geometry_.channels * line_ + block, line_);
      }
    });
  }
  // The channels of X at a position of a phase; zeros outside.
  const std::uint16_t* pixel(const std::uint16_t* x, const Grid::Place& place,
                             const std::array<std::int64_t, 3>& remainder) const {
    std::int64_t at = place.batch;
    bool inside = at < geometry_.batch;
    for (std::size_t i = 0; i < 3; ++i) {
      const GridAxis& grid = grid_.axes[i];
      const std::int64_t position = (place.at[i] + grid.least) * grid.axis.stride + remainder[i];
      inside &= position >= 0 && position < grid.axis.input;
      at = at * grid.axis.input + position;
    }
    return inside ? x + at * geometry_.channels : zeros_.data();
  }

  // Packs G at grid positions [first, first + positions_); zeros where there is no output.
  void pack_gradient(KernelContext& context, std::int64_t first, const Room& room) const {
    const auto* g = static_cast<const std::uint16_t*>(context.input(1).raw());
    const std::int64_t pairs = positions_ / Product::kGroup;
    context.parallel_for(pairs, 32, [&](std::int64_t begin, std::int64_t end) {
      Grid::Place place = grid_.place(first + begin * Product::kGroup);
      for (std::int64_t pair = begin; pair < end; ++pair) {
        const std::uint16_t* both[Product::kGroup];
        for (const std::uint16_t*& row : both) {
          row = gradient_row(g, place);
          grid_.move_on(place);
        }
        for (std::int64_t group = 0; group < groups_; ++group) {
          for (std::int64_t column = 0; column < outputs_; column += Product::kColumns) {
            const std::int64_t columns = std::min(Product::kColumns, outputs_ - column),
                               width = round_up(columns, Product::kLanes), at = group * outputs_ + column;
            std::uint16_t* to = room.packed + (group * lanes() + column) * positions_ + pair * width * Product::kGroup;
            pair_rows_bf16(both[0] + at, both[1] + at, columns, to);
            std::fill(to + columns * Product::kGroup, to + width * Product::kGroup, std::uint16_t{0});
          }
        }
      }
    });
  }
  const std::uint16_t* gradient_row(const std::uint16_t* g, const Grid::Place& place) const {
    std::int64_t at = place.batch;
    bool inside = at < geometry_.batch;
    for (std::size_t i = 0; i < 3; ++i) {
      inside &= place.at[i] < grid_.axes[i].axis.output;
      at = at * grid_.axes[i].axis.output + place.at[i];
    }
    return inside ? g + at * groups_ * outputs_ : zeros_.data();
  }

  // Adds the products of a slab to the sums.
  void multiply(KernelContext& context, std::int64_t first, const Room& room) const {
    const std::int64_t parts = ceil_divide(panels_, kPanelsTogether);
    context.parallel_for(groups_ * blocks() * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      const TileScope scope;
      for (std::int64_t i = begin; i < end; ++i) {
        base::yield_point();
        multiply_block(first == 0, i / parts / blocks(), i / parts % blocks(), i % parts * kPanelsTogether, room);
      }
    });
  }
  void multiply_block(bool begins, std::int64_t group, std::int64_t block, std::int64_t panel, const Room& room) const {
    const std::int64_t row = block * multiplier_.tile_rows, column = panel * Product::kColumns;
    const std::uint16_t* left[kProductRows];
    Product product{.rows = std::min(multiplier_.tile_rows, rows_ - row),
                    .tile_rows = multiplier_.tile_rows,
                    .segments = 1,
                    .groups = positions_ / Product::kGroup,
                    .left = left};
    for (std::int64_t i = 0; i < product.rows; ++i) {
      const Grid::Tap& tap = grid_.taps[static_cast<std::size_t>((row + i) / inputs_)];
      const std::int64_t channel = group * inputs_ + (row + i) % inputs_;
      left[i] = room.lines + (tap.phase * geometry_.channels + channel) * line_ + tap.offset;
    }
    product.right = room.packed + (group * lanes() + column) * positions_;
    product.panel_groups = product.groups;
    product.columns = std::min(kPanelsTogether * Product::kColumns, outputs_ - column);
    product.bias = room.bias + column;
    product.partial =
        room.sums + (group * blocks() + block) * block_floats() + panel * multiplier_.tile_rows * Product::kColumns;
    product.begins = begins;
    product.ends = false;
    multiplier_.multiply(product);
  }

  // Writes the sums in the order of weights, [output][input][tap].
  void store(KernelContext& context, const Room& room) const {
    Tensor& w = context.output(0);
    context.parallel_for(groups_ * panels_, 1, [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<float> turned, weights;  // [output][tap][input]; [input][tap]
      turned.resize(static_cast<std::size_t>(rows_ * Product::kColumns));
      weights.resize(static_cast<std::size_t>(rows_));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t group = i / panels_, panel = i % panels_, first = panel * Product::kColumns,
                           columns = std::min(Product::kColumns, outputs_ - first);
        for (std::int64_t block = 0; block < blocks(); ++block) {
          const std::int64_t row = block * multiplier_.tile_rows;
          const float* sums = room.sums + (group * blocks() + block) * block_floats() +
                              panel * multiplier_.tile_rows * Product::kColumns;
          gemm_f32_transpose(sums, Product::kColumns, 1, std::min(multiplier_.tile_rows, rows_ - row), columns,
                             turned.data() + row, rows_);
        }
        for (std::int64_t column = 0; column < columns; ++column) {
          const std::int64_t at = (group * outputs_ + first + column) * rows_;
          float* to = rounds_ ? weights.data() : w.mutable_data<float>() + at;
          gemm_f32_transpose(turned.data() + column * rows_, inputs_, 1, geometry_.taps(), inputs_, to,
                             geometry_.taps());
          if (rounds_) round_to_bf16_row(to, static_cast<std::uint16_t*>(w.mutable_raw()) + at, rows_);
        }
      }
    });
  }

  ChannelsLastGeometry geometry_;
  Grid grid_;
  std::int64_t groups_, inputs_, outputs_;  // channels of a group
  bool rounds_;
  std::int64_t rows_;  // of a group
  MultiplierBf16 multiplier_;
  std::int64_t panels_;
  std::vector<std::uint16_t> zeros_;
  std::int64_t positions_ = 0;          // of a slab
  std::int64_t line_ = 0, turned_ = 0;  // numbers per line, and how many of these are transposed
};

}  // namespace

std::string reject_conv_weight_gradient_bf16(const ops::NodeView& view) {
  if (!view.has_attribute("precision")) return "does not ask for bf16";
  if (view.input(0).dtype != DType::bf16 || view.input(1).dtype != DType::bf16) return "operands that are not rounded";
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  constexpr std::int64_t kFewOutputs = 8;
  const Shape& w = view.output(0).shape;
  const std::int64_t groups = view.integer("group");
  if (groups > 1 && std::min(w[0] / groups, w[1]) < kFewOutputs) return "few channels a group";
  return "";
}

std::string avoid_conv_weight_gradient_bf16(const ops::NodeView& view) {
  return avoid_bf16_gradient(weight_gradient_geometry(view), view.integer("group") > 1);
}

KernelPointer make_conv_weight_gradient_bf16(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ConvWeightGradientBf16>(view);
}

}  // namespace tessera::backends::cpu
