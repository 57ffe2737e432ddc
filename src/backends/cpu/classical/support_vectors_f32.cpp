#include "backends/cpu/classical/support_vectors_f32.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/classical/support_vectors_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/classical/double_lanes.h"

#ifndef TESSERA_BACKENDS_CPU_SUPPORT_VECTORS
#define TESSERA_BACKENDS_CPU_SUPPORT_VECTORS
namespace tessera::backends::cpu {

// Vectors per block: the kernel values of a block stay in the cache until they are multiplied by coefficients.
inline constexpr std::int64_t kVectorBlock = 16 * kVectorPanel;

// The most rows of a tile on any instruction set.
inline constexpr std::int64_t kMostTileRows = 8;

struct VectorBlocks {
  const ops::SvmPlan* plan;
  const float* panels;
  std::int64_t features;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using wide::V;
using Kind = ops::SvmPlan::Kernel;

// Rows of a tile, such that its sums fit the registers beside their operands.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 2;
#endif

V power(V x, double degree) {
  constexpr double kMostSquarings = 64;
  if (degree >= 1 && degree <= kMostSquarings && degree == std::floor(degree)) {
    V result = wide::set(1);
    for (auto left = static_cast<unsigned>(degree); left > 0; left /= 2, x = hn::Mul(x, x))
      if (left % 2 != 0) result = hn::Mul(result, x);
    return result;
  }
  HWY_ALIGN double lanes[hn::MaxLanes(wide::D())];
  hn::Store(x, wide::D(), lanes);
  for (double& lane : lanes) lane = std::pow(lane, degree);
  return hn::Load(wide::D(), lanes);
}

// Replaces a panel's products or, for radial basis functions, squared distances by the kernel's values.
HWY_INLINE void apply_kernel(const ops::SvmPlan& plan, double* values) {
  const wide::D d;
  const auto replace = [&](const auto& function) HWY_ATTR {
    for (std::int64_t i = 0; i < kVectorPanel; i += wide::lane_count())
      hn::StoreU(function(hn::LoadU(d, values + i)), d, values + i);
  };
  const V gamma = wide::set(plan.gamma), coefficient = wide::set(plan.coefficient), one = wide::set(1);
  switch (plan.kernel) {
    case Kind::linear:
      return;
    case Kind::rbf:
      return replace([=](V distance) HWY_ATTR { return wide::exp(hn::Neg(hn::Mul(distance, gamma))); });
    case Kind::poly:
      return replace([&](V product) HWY_ATTR { return power(hn::MulAdd(product, gamma, coefficient), plan.degree); });
    case Kind::sigmoid:
      // tanh x = 1 - 2 / (e^2x + 1)
      return replace([=](V product) HWY_ATTR {
        const V inner = hn::MulAdd(product, gamma, coefficient), grown = wide::exp(hn::Add(inner, inner));
        return hn::Sub(one, hn::Div(wide::set(2), hn::Add(grown, one)));
      });
  }
}

// Kernel values of kRows rows, x[feature][row], for the vectors of one panel.
template <int kRows, bool kDistance>
HWY_INLINE void panel_values(const double* x, const float* panel, std::int64_t features, const ops::SvmPlan& plan,
                             double* values) {
  constexpr int kVectors = static_cast<int>(kVectorPanel / hn::MaxLanes(wide::D()));
  // With few lanes takes a part of the panel at a time.
  constexpr int kAtOnce = kVectors < 4 ? kVectors : 4;
  const std::int64_t lanes = wide::lane_count();
  for (std::int64_t part = 0; part < kVectorPanel; part += kAtOnce * lanes) {
    V sums[kRows][kAtOnce];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kAtOnce; ++v) sums[row][v] = wide::set(0);
    }
    for (std::int64_t i = 0; i < features; ++i) {
      V vectors[kAtOnce];
#pragma GCC unroll 4
      for (int v = 0; v < kAtOnce; ++v) vectors[v] = wide::load(panel + i * kVectorPanel + part + v * lanes);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        const V element = wide::set(x[i * kRows + row]);
#pragma GCC unroll 4
        for (int v = 0; v < kAtOnce; ++v) {
          const V left = kDistance ? hn::Sub(element, vectors[v]) : element;
          sums[row][v] = hn::MulAdd(left, kDistance ? left : vectors[v], sums[row][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kAtOnce; ++v)
        hn::StoreU(sums[row][v], wide::D(), values + row * kVectorBlock + part + v * lanes);
    }
  }
  for (int row = 0; row < kRows; ++row) apply_kernel(plan, values + row * kVectorBlock);
}

double weighted_sum(const float* weights, const double* values, std::int64_t count) {
  const std::int64_t lanes = wide::lane_count();
  V sums[4] = {wide::set(0), wide::set(0), wide::set(0), wide::set(0)};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      sums[k] = hn::MulAdd(wide::load(weights + i + k * lanes), wide::load(values + i + k * lanes), sums[k]);
  }
  for (; i < count; i += lanes) {
    const std::int64_t rest = std::min(lanes, count - i);
    sums[0] = hn::MulAdd(wide::load_first(weights + i, rest), wide::load_first(values + i, rest), sums[0]);
  }
  return wide::sum_of(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

// `x` is [feature][row].
template <int kRows>
void add_tile(const VectorBlocks& blocks, const double* x, const std::vector<VectorSegment>& segments, double* scores,
              std::int64_t scores_a_row) {
  double values[kRows * kVectorBlock];
  const ops::SvmPlan& plan = *blocks.plan;
  const auto panel = plan.kernel == Kind::rbf ? panel_values<kRows, true> : panel_values<kRows, false>;
  std::size_t first_segment = 0;
  for (std::int64_t begin = 0; begin < plan.vectors; begin += kVectorBlock) {
    const std::int64_t end = std::min(begin + kVectorBlock, plan.vectors);
    for (std::int64_t at = begin; at < end; at += kVectorPanel)
      panel(x, blocks.panels + at * blocks.features, blocks.features, plan, values + at - begin);
    for (std::size_t s = first_segment; s < segments.size() && segments[s].first < end; ++s) {
      const VectorSegment& segment = segments[s];
      const std::int64_t from = std::max(begin, segment.first), to = std::min(end, segment.first + segment.count);
      if (to <= from) continue;
      for (int row = 0; row < kRows; ++row) {
        scores[row * scores_a_row + segment.score] += weighted_sum(
            segment.coefficients + from - segment.first, values + row * kVectorBlock + from - begin, to - from);
      }
    }
    while (first_segment < segments.size() && segments[first_segment].first + segments[first_segment].count <= end)
      ++first_segment;
  }
}

}  // namespace

// `work` holds as many numbers as a tile of rows, of which there are at most kMostTileRows.
void add_vector_scores(const VectorBlocks& blocks, const float* x, std::int64_t rows,
                       const std::vector<VectorSegment>& segments, double* scores, std::int64_t scores_a_row,
                       double* work) {
  std::int64_t row = 0;
  const auto transpose = [&](std::int64_t tile) {
    for (std::int64_t r = 0; r < tile; ++r) {
      for (std::int64_t i = 0; i < blocks.features; ++i) work[i * tile + r] = x[(row + r) * blocks.features + i];
    }
  };
  for (; row + kTileRows <= rows; row += kTileRows) {
    transpose(kTileRows);
    add_tile<kTileRows>(blocks, work, segments, scores + row * scores_a_row, scores_a_row);
  }
  for (; row < rows; ++row) {
    transpose(1);
    add_tile<1>(blocks, work, segments, scores + row * scores_a_row, scores_a_row);
  }
}

// `weights` is [scores, features].
void add_linear_scores(const double* weights, std::int64_t features, const float* x, std::int64_t rows, double* scores,
                       std::int64_t scores_a_row) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < scores_a_row; ++i)
      scores[row * scores_a_row + i] += weighted_sum(x + row * features, weights + i * features, features);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(add_vector_scores);
HWY_EXPORT(add_linear_scores);

SupportVectors::SupportVectors(const ops::SvmPlan& plan, const std::vector<float>& vectors, std::int64_t features,
                               std::vector<VectorSegment> segments, std::int64_t scores)
    : plan_(plan), features_(features), segments_(std::move(segments)), scores_(scores) {
  if (plan.kernel == ops::SvmPlan::Kernel::linear && scores <= plan.vectors) {
    fold(vectors);
    return;
  }
  const std::int64_t panels = (plan.vectors + kVectorPanel - 1) / kVectorPanel;
  panels_.resize(static_cast<std::size_t>(panels * kVectorPanel * features));
  for (std::int64_t v = 0; v < plan.vectors; ++v) {
    float* to = panels_.data() + v / kVectorPanel * kVectorPanel * features + v % kVectorPanel;
    for (std::int64_t i = 0; i < features; ++i)
      to[i * kVectorPanel] = vectors[static_cast<std::size_t>(v * features + i)];
  }
}

void SupportVectors::fold(const std::vector<float>& vectors) {
  weights_.resize(static_cast<std::size_t>(scores_ * features_));
  for (const VectorSegment& segment : segments_) {
    double* to = weights_.data() + segment.score * features_;
    for (std::int64_t v = 0; v < segment.count; ++v) {
      const float* vector = vectors.data() + (segment.first + v) * features_;
      const double coefficient = segment.coefficients[v];
      for (std::int64_t i = 0; i < features_; ++i) to[i] += coefficient * vector[i];
    }
  }
}

void SupportVectors::add_scores(const float* x, std::int64_t rows, double* scores) const {
  if (!weights_.empty())
    return HWY_DYNAMIC_DISPATCH(add_linear_scores)(weights_.data(), features_, x, rows, scores, scores_);
  std::vector<double> work(static_cast<std::size_t>(kMostTileRows * features_));
  HWY_DYNAMIC_DISPATCH(add_vector_scores)
  (VectorBlocks{&plan_, panels_.data(), features_}, x, rows, segments_, scores, scores_, work.data());
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
