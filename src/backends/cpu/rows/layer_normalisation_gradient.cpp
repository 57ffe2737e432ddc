// Gradients of LayerNormalization and RMSNormalization in float32. A row is read from memory once; sums over rows are
// computed in pieces, which depend only on the shape, and joined in double precision.
#include "ops/rows/layer_normalisation_gradient.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/rows/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/layer_normalisation_gradient.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/machine/vector_loop.h"
#include "backends/cpu/rows/normalisation_rows.h"

#ifndef TESSERA_BACKENDS_CPU_LAYER_NORMALISATION_GRADIENT
#define TESSERA_BACKENDS_CPU_LAYER_NORMALISATION_GRADIENT
namespace tessera::backends::cpu {

// One row, and the sums over rows. Null shifts: RMSNormalization, which has no mean either.
struct NormalisedRow {
  const float *dy, *x, *scale;
  float *dx, *scales, *shifts;
  std::int64_t count;
  float epsilon;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

template <bool centres>
void row_gradient(const NormalisedRow& given) {
  const NormalisedRow row = given;
  const float share = 1.0f / static_cast<float>(row.count);
  const float mean = centres ? reduce(Sum(), row.x, row.count) * share : 0.0f;
  const float inverse = 1.0f / std::sqrt(mean_square_around(row.x, row.count, mean) + row.epsilon);
  const V centre = set(mean), factor = set(inverse);
  V sum = set(0), product = sum;
  for_each_vector(row.count, [&](std::int64_t i, auto load, auto) HWY_ATTR {
    const V g = hn::Mul(load(row.dy + i), load(row.scale + i));
    if constexpr (centres) sum = hn::Add(sum, g);
    product = hn::MulAdd(g, hn::Sub(load(row.x + i), centre), product);
  });
  const V shift = set(centres ? join_lanes(Sum(), sum) * share : 0.0f);
  const V slope = set(join_lanes(Sum(), product) * share * inverse);
  for_each_vector(row.count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    const V dy = load(row.dy + i), hat = hn::Mul(hn::Sub(load(row.x + i), centre), factor);
    const V g = hn::MulSub(dy, load(row.scale + i), shift);
    store(hn::MulAdd(dy, hat, load(row.scales + i)), row.scales + i);
    if constexpr (centres) store(hn::Add(dy, load(row.shifts + i)), row.shifts + i);
    store(hn::Mul(factor, hn::NegMulAdd(hat, slope, g)), row.dx + i);
  });
}

}  // namespace

void normalised_row_gradient(const NormalisedRow& row) {
  if (row.shifts != nullptr) row_gradient<true>(row);
  else row_gradient<false>(row);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(normalised_row_gradient);

constexpr std::int64_t kPieceElements = 8192;  // at least
constexpr std::int64_t kMostPieces = 64;       // each has sums for all elements of a row
constexpr std::int64_t kColumnGrain = 256;     // elements of a row whose sums are joined at once

class RowGradientKernel final : public Kernel {
 public:
  explicit RowGradientKernel(const ops::NodeView& view)
      : row_gradient_(HWY_DYNAMIC_DISPATCH(normalised_row_gradient)),
        count_(view.input(2).elements()),
        rows_(view.input(1).elements() / count_),
        rows_a_piece_(
            std::max((rows_ + kMostPieces - 1) / kMostPieces, std::max<std::int64_t>(1, kPieceElements / count_))),
        pieces_((rows_ + rows_a_piece_ - 1) / rows_a_piece_),
        epsilon_(view.real("epsilon")),
        centres_(view.op().name == "tessera::LayerNormalizationGradient") {}

  // Per piece the sums of dY x̂ and of dY, one after the other.
  std::int64_t scratch_bytes() const override {
    return pieces_ * 2 * count_ * static_cast<std::int64_t>(sizeof(float));
  }

  void run(KernelContext& context) const override {
    const float *dy = context.input(0).data<float>(), *x = context.input(1).data<float>(),
                *scale = context.input(2).data<float>();
    float* dx = context.output(0).mutable_data<float>();
    auto* sums = reinterpret_cast<float*>(context.scratch());
    context.parallel_for(pieces_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        float *scales = sums + piece * 2 * count_, *shifts = scales + count_;
        std::fill_n(scales, 2 * count_, 0.0f);
        const std::int64_t last = std::min(rows_, (piece + 1) * rows_a_piece_);
        for (std::int64_t row = piece * rows_a_piece_; row < last; ++row) {
          const std::int64_t at = row * count_;
          row_gradient_({dy + at, x + at, scale, dx + at, scales, centres_ ? shifts : nullptr, count_, epsilon_});
        }
      }
    });
    join(context, sums, context.output(1).mutable_data<float>());
    if (centres_) join(context, sums + count_, context.output(2).mutable_data<float>());
  }

 private:
  void join(KernelContext& context, const float* sums, float* result) const {
    context.parallel_for(count_, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        double total = 0;
        for (std::int64_t piece = 0; piece < pieces_; ++piece)
          total += static_cast<double>(sums[piece * 2 * count_ + i]);
        result[i] = static_cast<float>(total);
      }
    });
  }

  decltype(&HWY_STATIC_DISPATCH(normalised_row_gradient)) row_gradient_;
  std::int64_t count_, rows_, rows_a_piece_, pieces_;
  float epsilon_;
  bool centres_;
};

}  // namespace

std::string reject_row_gradient(const ops::NodeView& view) {
  if (view.input(1).dtype != DType::f32) return "takes f32";
  return view.input(1).elements() == 0 ? "takes no empty tensor" : "";
}

KernelPointer make_row_gradient(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<RowGradientKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
