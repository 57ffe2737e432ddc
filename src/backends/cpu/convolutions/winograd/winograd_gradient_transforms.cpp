#include "backends/cpu/convolutions/winograd/winograd_gradient_transforms.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/winograd/winograd_gradient_transforms.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr std::int64_t kTile = kWinogradTile, kPatch = kWinogradPatch;
constexpr std::int64_t kWindow = 3;

// x + factor y
HWY_INLINE V plus(V x, V y, float factor) {
  return hn::MulAdd(y, hn::Set(D(), factor), x);
}

// Computes A x, from four vectors to six.
HWY_INLINE void gradient_line(const V (&x)[kTile], V (&y)[kPatch]) {
  const V even = hn::Add(x[0], x[2]), odd = hn::Add(x[1], x[3]);
  const V even2 = plus(x[0], x[2], 4), odd2 = plus(hn::Add(x[1], x[1]), x[3], 8);
  y[0] = x[0];
  y[1] = hn::Add(even, odd);
  y[2] = hn::Sub(even, odd);
  y[3] = hn::Add(even2, odd2);
  y[4] = hn::Sub(even2, odd2);
  y[5] = x[3];
}

// Computes Gᵀ x, from six vectors to three.
HWY_INLINE void window_line(const V (&x)[kPatch], V (&y)[kWindow]) {
  const D d;
  const V sum1 = hn::Mul(hn::Add(x[1], x[2]), hn::Set(d, 1.0f / 6)),
          difference1 = hn::Mul(hn::Sub(x[2], x[1]), hn::Set(d, 1.0f / 6)), sum2 = hn::Add(x[3], x[4]),
          difference2 = hn::Sub(x[3], x[4]);
  y[0] = plus(hn::Sub(hn::Mul(x[0], hn::Set(d, 0.25f)), sum1), sum2, 1.0f / 24);
  y[1] = plus(difference1, difference2, 1.0f / 12);
  y[2] = plus(hn::Sub(x[5], sum1), sum2, 1.0f / 6);
}

// Transforms one vector of channels of a tile. `whole`: all lanes are channels.
template <bool whole>
HWY_INLINE void transform_gradient(const WinogradPatch& tile, std::int64_t c) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, tile.channels - c)));
  HWY_ALIGN float half[kPatch * kTile * kLanes];
  for (std::int64_t j = 0; j < kTile; ++j) {
    V x[kTile], y[kPatch];
    const std::int64_t column = tile.left + j;
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kTile; ++i) {
      const std::int64_t row = tile.top + i;
      if (row >= tile.rows || column >= tile.columns) {
        x[i] = hn::Zero(d);
        continue;
      }
      const float* from = static_cast<const float*>(tile.input) + (row * tile.columns + column) * tile.channels + c;
      x[i] = whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from);
    }
    gradient_line(x, y);
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < kPatch; ++i) hn::Store(y[i], d, half + (i * kTile + j) * kLanes);
  }
  for (std::int64_t i = 0; i < kPatch; ++i) {
    V x[kTile], y[kPatch];
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kTile; ++j) x[j] = hn::Load(d, half + (i * kTile + j) * kLanes);
    gradient_line(x, y);
#pragma GCC unroll 6
    for (std::int64_t j = 0; j < kPatch; ++j) {
      float* to = tile.parts + (i * kPatch + j) * tile.stride + c;
      if (whole) hn::StoreU(y[j], d, to);
      else hn::BlendedStore(y[j], mask, d, to);
    }
  }
}

void transform_gradient(const WinogradPatch& tile) {
  std::int64_t c = 0;
  for (; c + kLanes <= tile.channels; c += kLanes) transform_gradient<true>(tile, c);
  if (c < tile.channels) transform_gradient<false>(tile, c);
}

void collect_weights(const WinogradSums& sums) {
  const D d;
  HWY_ALIGN float half[kWindow * kPatch * kLanes], taps[kWindow * kWindow * kLanes];
  for (std::int64_t c = 0; c < sums.inputs; c += kLanes) {
    const std::int64_t count = std::min(kLanes, sums.inputs - c);
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(count));
    for (std::int64_t j = 0; j < kPatch; ++j) {
      V x[kPatch], y[kWindow];
#pragma GCC unroll 6
      for (std::int64_t i = 0; i < kPatch; ++i)
        x[i] = hn::MaskedLoad(mask, d, sums.parts + (i * kPatch + j) * sums.stride + c);
      window_line(x, y);
#pragma GCC unroll 3
      for (std::int64_t i = 0; i < kWindow; ++i) hn::Store(y[i], d, half + (i * kPatch + j) * kLanes);
    }
    for (std::int64_t i = 0; i < kWindow; ++i) {
      V x[kPatch], y[kWindow];
#pragma GCC unroll 6
      for (std::int64_t j = 0; j < kPatch; ++j) x[j] = hn::Load(d, half + (i * kPatch + j) * kLanes);
      window_line(x, y);
#pragma GCC unroll 3
      for (std::int64_t j = 0; j < kWindow; ++j) hn::Store(y[j], d, taps + (i * kWindow + j) * kLanes);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      float* to = sums.weights + (c + k) * sums.taps;
      for (std::int64_t t = 0; t < kWindow * kWindow; ++t) to[t] = taps[t * kLanes + k];
    }
  }
}

}  // namespace

const WinogradGradientFunctions* winograd_gradient_isa_functions() {
  static constexpr WinogradGradientFunctions functions{transform_gradient, collect_weights};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(winograd_gradient_isa_functions);

const WinogradGradientFunctions& winograd_gradient_functions() {
  return *HWY_DYNAMIC_DISPATCH(winograd_gradient_isa_functions)();
}

}  // namespace tessera::backends::cpu
#endif
