// Squared distances of float32 rows, summed directly: |a|² + |b|² - 2 a·b would cancel for rows that are near each
// other.
#include <algorithm>

#include "backends/cpu/classical/kernels.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/machine/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/classical/squared_distances_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_SQUARED_DISTANCES
#define TESSERA_BACKENDS_CPU_SQUARED_DISTANCES
namespace tessera::backends::cpu {

// Rows per panel of B; panels are [panel][feature][row], with zeros behind the last row.
inline constexpr std::int64_t kDistancePanel = 32;
// Rows of A that share the loads of a panel.
inline constexpr std::int64_t kDistanceRows = 8;

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;
constexpr int kAtOnce = 2;  // vectors of the panel

template <int kRows>
HWY_INLINE void distance_tile(const float* a, std::int64_t features, const float* panel, std::int64_t count, float* y,
                              std::int64_t stride) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t part = 0; part < count; part += kAtOnce * lanes) {
    V sums[kRows][kAtOnce];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int v = 0; v < kAtOnce; ++v) sums[row][v] = hn::Zero(d);
    }
    for (std::int64_t i = 0; i < features; ++i) {
      V right[kAtOnce];
#pragma GCC unroll 2
      for (int v = 0; v < kAtOnce; ++v) right[v] = hn::LoadU(d, panel + i * kDistancePanel + part + v * lanes);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        const V left = hn::Set(d, a[row * features + i]);
#pragma GCC unroll 2
        for (int v = 0; v < kAtOnce; ++v) {
          const V difference = hn::Sub(left, right[v]);
          sums[row][v] = hn::MulAdd(difference, difference, sums[row][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int v = 0; v < kAtOnce; ++v) {
        const std::int64_t rest = count - part - v * lanes;
        float* to = y + row * stride + part + v * lanes;
        if (rest >= lanes) hn::StoreU(sums[row][v], d, to);
        else if (rest > 0) hn::BlendedStore(sums[row][v], hn::FirstN(d, static_cast<std::size_t>(rest)), d, to);
      }
    }
  }
}

}  // namespace

// Distances of `rows` rows of A and `count` rows of B, given as panels.
void distances_of_rows(const float* a, std::int64_t rows, std::int64_t features, const float* panels,
                       std::int64_t count, float* y, std::int64_t stride) {
  for (std::int64_t first = 0; first < count; first += kDistancePanel) {
    const float* panel = panels + first * features;
    const std::int64_t width = std::min(kDistancePanel, count - first);
    std::int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows)
      distance_tile<kTileRows>(a + row * features, features, panel, width, y + row * stride + first, stride);
    for (; row < rows; ++row)
      distance_tile<1>(a + row * features, features, panel, width, y + row * stride + first, stride);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(distances_of_rows);

// Rows of B per task.
constexpr std::int64_t kDistanceColumns = 16 * kDistancePanel;
// Subtractions per chunk.
constexpr std::int64_t kDistanceGrain = 512 * 1024;

void pack_panels(const float* b, std::int64_t rows, std::int64_t features, float* to) {
  for (std::int64_t first = 0; first < rows; first += kDistancePanel, to += kDistancePanel * features) {
    const std::int64_t count = std::min(kDistancePanel, rows - first);
    if (count < kDistancePanel) std::fill_n(to, kDistancePanel * features, 0.0f);
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < features; ++i) to[i * kDistancePanel + row] = b[(first + row) * features + i];
    }
  }
}

class SquaredDistances final : public Kernel {
 public:
  SquaredDistances(const ops::NodeView& view, WeightStore& store)
      : rows_(view.input(0).shape[0]), columns_(view.input(1).shape[0]), features_(view.input(0).shape[1]) {
    if (view.constant(1) == nullptr || packed_bytes() == 0) return;
    packed_ = store.find_or_pack(*view.constant(1), "squared_distances_v1", packed_bytes(),
                                 [rows = columns_, features = features_](const Tensor& b, std::byte* to) {
                                   pack_panels(b.data<float>(), rows, features, reinterpret_cast<float*>(to));
                                 });
  }

  std::int64_t scratch_bytes() const override { return packed_ == nullptr ? packed_bytes() : 0; }

  void run(KernelContext& context) const override {
    const auto* panels = reinterpret_cast<const float*>(packed_ != nullptr ? packed_->data.get() : context.scratch());
    if (packed_ == nullptr)
      pack_panels(context.input(1).data<float>(), columns_, features_, reinterpret_cast<float*>(context.scratch()));
    const float* a = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t blocks = (columns_ + kDistanceColumns - 1) / kDistanceColumns,
                       tiles = (rows_ + kDistanceRows - 1) / kDistanceRows;
    const std::int64_t cost = std::min(rows_, kDistanceRows) * std::min(columns_, kDistanceColumns) * (features_ + 4);
    context.parallel_for(
        tiles * blocks, std::max<std::int64_t>(1, kDistanceGrain / std::max<std::int64_t>(1, cost)),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t row = item / blocks * kDistanceRows, column = item % blocks * kDistanceColumns;
            HWY_DYNAMIC_DISPATCH(distances_of_rows)
            (a + row * features_, std::min(kDistanceRows, rows_ - row), features_, panels + column * features_,
             std::min(kDistanceColumns, columns_ - column), y + row * columns_ + column, columns_);
          }
        });
  }

 private:
  std::int64_t packed_bytes() const {
    return (columns_ + kDistancePanel - 1) / kDistancePanel * kDistancePanel * features_ * 4;
  }

  std::int64_t rows_, columns_, features_;
  std::shared_ptr<const PackedWeights> packed_;  // null: B is not constant, and each run packs it
};

}  // namespace

std::string reject_squared_distances(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  return view.output(0).elements() == 0 ? "wants some rows" : "";
}

KernelPointer make_squared_distances_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<SquaredDistances>(view, weights);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
