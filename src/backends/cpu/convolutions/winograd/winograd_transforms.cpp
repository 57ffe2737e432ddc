#include "backends/cpu/convolutions/winograd/winograd_transforms.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolutions/winograd/winograd_transforms.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr std::int64_t kTile = kWinogradTile, kPatch = kWinogradPatch, kParts = kWinogradParts;

HWY_INLINE V scaled(V x, float factor) {
  return hn::Mul(x, hn::Set(D(), factor));
}
// x + factor y
HWY_INLINE V plus(V x, V y, float factor) {
  return hn::MulAdd(y, hn::Set(D(), factor), x);
}

// Computes Bᵀ x, six vectors to six.
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

// Computes Aᵀ x, six vectors to four.
HWY_INLINE void output_line(const V (&x)[kPatch], V (&y)[kTile]) {
  const V sum1 = hn::Add(x[1], x[2]), difference1 = hn::Sub(x[1], x[2]), sum2 = hn::Add(x[3], x[4]),
          difference2 = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(hn::Add(x[0], sum1), sum2);
  y[1] = plus(difference1, difference2, 2);
  y[2] = plus(sum1, sum2, 4);
  y[3] = plus(hn::Add(difference1, x[5]), difference2, 8);
}

// Loads `count` numbers from the i-th on; `whole`: as many as there are lanes.
template <WinogradInput kind, bool whole>
HWY_INLINE V load_input(const void* input, std::int64_t i, std::int64_t count) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  if constexpr (kind == WinogradInput::bf16) {
    const hn::Rebind<std::uint16_t, D> d16;
    const std::uint16_t* from = static_cast<const std::uint16_t*>(input) + i;
    HWY_ALIGN std::uint16_t numbers[kLanes] = {};
    if (!whole) from = std::copy_n(from, count, numbers) - count;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
  } else {
    const float* from = static_cast<const float*>(input) + i;
    const V x = whole ? hn::LoadU(d, from) : hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
    if constexpr (kind == WinogradInput::f32) return x;
    // Rounds to nearest, ties to even; NaN stays NaN.
    const auto bits = hn::BitCast(du, x), even = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(even, hn::Set(du, 0x7FFFu)));
    const auto kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), hn::Or(bits, hn::Set(du, 0x400000u)), rounded);
    return hn::BitCast(d, hn::And(kept, hn::Set(du, 0xFFFF0000u)));
  }
}

// Transforms one vector of channels of a patch. `inside`: the whole patch is within the image; `whole`: all lanes are
// channels.
template <WinogradInput kind, bool inside, bool whole>
HWY_INLINE void transform_input(const WinogradPatch& patch, std::int64_t c) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, patch.channels - c)));
  HWY_ALIGN float half[kParts * kLanes];
  for (std::int64_t j = 0; j < kPatch; ++j) {
    V x[kPatch], y[kPatch];
    const std::int64_t column = patch.left + j * patch.column_step;
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < kPatch; ++i) {
      const std::int64_t row = patch.top + i * patch.row_step;
      if (!inside && (row < 0 || row >= patch.rows || column < 0 || column >= patch.columns)) {
        x[i] = hn::Zero(d);
        continue;
      }
      x[i] = load_input<kind, whole>(patch.input, (row * patch.columns + column) * patch.channels + c,
                                     std::min(kLanes, patch.channels - c));
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

template <WinogradInput kind>
void transform_patch(const WinogradPatch& patch) {
  const bool inside = patch.top >= 0 && patch.left >= 0 && patch.top + (kPatch - 1) * patch.row_step < patch.rows &&
                      patch.left + (kPatch - 1) * patch.column_step < patch.columns;
  std::int64_t c = 0;
  for (; c + kLanes <= patch.channels; c += kLanes)
    inside ? transform_input<kind, true, true>(patch, c) : transform_input<kind, false, true>(patch, c);
  if (c < patch.channels) transform_input<kind, false, false>(patch, c);
}

void transform_input(const WinogradPatch& patch) {
  switch (patch.kind) {
    case WinogradInput::f32:
      return transform_patch<WinogradInput::f32>(patch);
    case WinogradInput::rounded_f32:
      return transform_patch<WinogradInput::rounded_f32>(patch);
    case WinogradInput::bf16:
      return transform_patch<WinogradInput::bf16>(patch);
  }
}

// Transforms one vector of channels of a tile.
template <bool whole>
HWY_INLINE void transform_output(const WinogradTile& tile, std::int64_t c) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, tile.channels - c)));
  const auto load = [&](const float* from)
                        HWY_ATTR { return whole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from); };
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
      const std::int64_t offset = i * tile.row_stride + j * tile.column_stride + c;
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

using D64 = hn::ScalableTag<double>;
using V64 = hn::Vec<D64>;

// Computes G x, three vectors to six.
HWY_INLINE void weight_line(const V64 (&x)[3], V64 (&y)[kPatch]) {
  const D64 d;
  const auto scaled = [&](V64 v, double factor) HWY_ATTR { return hn::Mul(v, hn::Set(d, factor)); };
  const V64 outer = hn::Add(x[0], x[2]), even = hn::MulAdd(x[2], hn::Set(d, 1.0 / 6), scaled(x[0], 1.0 / 24));
  y[0] = scaled(x[0], 1.0 / 4);
  y[1] = scaled(hn::Add(outer, x[1]), -1.0 / 6);
  y[2] = scaled(hn::Sub(outer, x[1]), -1.0 / 6);
  y[3] = hn::MulAdd(x[1], hn::Set(d, 1.0 / 12), even);
  y[4] = hn::MulAdd(x[1], hn::Set(d, -1.0 / 12), even);
  y[5] = x[2];
}

// Computes G g Gᵀ of each window g.
void transform_weights(const WinogradWeights& weights) {
  const D64 d;
  const hn::Rebind<float, D64> d32;
  for (std::int64_t c = 0; c < weights.columns; c += HWY_LANES(double)) {
    V64 half[3][kPatch];
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      V64 x[3];
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i)
        x[i] = hn::PromoteTo(d, hn::LoadU(d32, weights.windows + (i * 3 + j) * weights.columns + c));
      weight_line(x, half[j]);
    }
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < kPatch; ++i) {
      const V64 x[3] = {half[0][i], half[1][i], half[2][i]};
      V64 y[kPatch];
      weight_line(x, y);
#pragma GCC unroll 6
      for (std::int64_t k = 0; k < kPatch; ++k)
        hn::StoreU(hn::DemoteTo(d32, y[k]), d32, weights.parts + (i * kPatch + k) * weights.stride + c);
    }
  }
}

}  // namespace

const WinogradFunctions* winograd_isa_functions() {
  static constexpr WinogradFunctions functions{transform_input, transform_output, transform_weights};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(winograd_isa_functions);

const WinogradFunctions& winograd_functions() {
  return *HWY_DYNAMIC_DISPATCH(winograd_isa_functions)();
}

}  // namespace tessera::backends::cpu
#endif
