#include "backends/cpu/recurrent/gate_gradients.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/recurrent/gate_gradients.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using GradientTag = hn::ScalableTag<float>;
using GradientVector = hn::Vec<GradientTag>;
constexpr std::int64_t kGradientLanes = HWY_LANES(float);

// Loads and stores of the units [u, u + lanes) of a row, as far as they exist.
struct Units {
  explicit Units(const GateGradientRow& from, std::int64_t first)
      : row(from), u(first), mask(hn::FirstN(d, static_cast<std::size_t>(std::min(kGradientLanes, from.count - u)))) {}

  HWY_INLINE GradientVector load(const float* from) const { return hn::MaskedLoad(mask, d, from + u); }
  HWY_INLINE GradientVector load_or_zero(const float* from) const {
    return from == nullptr ? hn::Zero(d) : hn::MaskedLoad(mask, d, from + u);
  }
  HWY_INLINE GradientVector kept(std::int64_t i) const { return load(row.kept + i * row.stride); }
  HWY_INLINE void store(GradientVector value, float* to) const { hn::BlendedStore(value, mask, d, to + u); }
  // The gradient of the hidden state after the step, without `carried`.
  HWY_INLINE GradientVector hidden() const { return hn::Add(load_or_zero(row.output), load_or_zero(row.recurrent)); }

  const GateGradientRow& row;
  std::int64_t u;
  GradientTag d;
  hn::Mask<GradientTag> mask;
};

// x (1 - x)
HWY_INLINE GradientVector sigmoid_slope(GradientVector x) {
  return hn::NegMulAdd(x, x, x);
}
// 1 - x²
HWY_INLINE GradientVector tanh_slope(GradientVector x) {
  return hn::NegMulAdd(x, x, hn::Set(GradientTag(), 1.0f));
}

void lstm_gate_gradients(const GateGradientRow& row) {
  const GradientTag d;
  for (std::int64_t first = 0; first < row.count; first += kGradientLanes) {
    const Units units(row, first);
    const GradientVector i = units.kept(0), o = units.kept(1), f = units.kept(2), c = units.kept(3);
    const GradientVector tanh_cell = math::tanh(d, units.kept(4)), hidden = units.hidden();
    const GradientVector cell = hn::MulAdd(hn::Mul(hidden, o), tanh_slope(tanh_cell), units.load(row.carried));
    units.store(hn::Mul(hn::Mul(cell, c), sigmoid_slope(i)), row.input);
    units.store(hn::Mul(hn::Mul(hidden, tanh_cell), sigmoid_slope(o)), row.input + row.stride);
    units.store(hn::Mul(hn::Mul(cell, units.load(row.before)), sigmoid_slope(f)), row.input + 2 * row.stride);
    units.store(hn::Mul(hn::Mul(cell, i), tanh_slope(c)), row.input + 3 * row.stride);
    units.store(hn::Mul(cell, f), row.carried);
  }
}

void gru_gate_gradients(const GateGradientRow& row) {
  const GradientTag d;
  const GradientVector one = hn::Set(d, 1.0f);
  for (std::int64_t first = 0; first < row.count; first += kGradientLanes) {
    const Units units(row, first);
    const GradientVector z = units.kept(0), r = units.kept(1), n = units.kept(2), memory = units.kept(3);
    const GradientVector hidden = hn::Add(units.hidden(), units.load(row.carried));
    const GradientVector update = hn::Mul(hn::Mul(hidden, hn::Sub(units.load(row.before), n)), sigmoid_slope(z));
    const GradientVector candidate = hn::Mul(hn::Mul(hidden, hn::Sub(one, z)), tanh_slope(n));
    const GradientVector reset = hn::Mul(hn::Mul(candidate, memory), sigmoid_slope(r));
    const GradientVector gates[] = {update, reset, candidate, hn::Mul(candidate, r)};
    for (std::int64_t g = 0; g < 3; ++g) {
      units.store(gates[g], row.input + g * row.stride);
      units.store(gates[g == 2 ? 3 : g], row.product + g * row.stride);
    }
    units.store(hn::Mul(hidden, z), row.carried);
  }
}

void rnn_gate_gradients(const GateGradientRow& row) {
  const GradientTag d;
  for (std::int64_t first = 0; first < row.count; first += kGradientLanes) {
    const Units units(row, first);
    const GradientVector h = units.kept(0), hidden = units.hidden();
    const GradientVector gate =
        row.relu ? hn::IfThenElseZero(hn::Gt(h, hn::Zero(d)), hidden) : hn::Mul(hidden, tanh_slope(h));
    units.store(gate, row.input);
  }
}

void sum_gate_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t count, float* sums) {
  const GradientTag d;
  for (std::int64_t u = 0; u < count; u += kGradientLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kGradientLanes, count - u)));
    GradientVector sum = hn::MaskedLoad(mask, d, sums + u);
    for (std::int64_t i = 0; i < rows; ++i) sum = hn::Add(sum, hn::MaskedLoad(mask, d, from + i * stride + u));
    hn::BlendedStore(sum, mask, d, sums + u);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(lstm_gate_gradients);
HWY_EXPORT(gru_gate_gradients);
HWY_EXPORT(rnn_gate_gradients);
HWY_EXPORT(sum_gate_rows);

void apply_lstm_gate_gradients(const GateGradientRow& row) {
  HWY_DYNAMIC_DISPATCH(lstm_gate_gradients)(row);
}
void apply_gru_gate_gradients(const GateGradientRow& row) {
  HWY_DYNAMIC_DISPATCH(gru_gate_gradients)(row);
}
void apply_rnn_gate_gradients(const GateGradientRow& row) {
  HWY_DYNAMIC_DISPATCH(rnn_gate_gradients)(row);
}

void sum_gate_gradients(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t count, float* sums) {
  HWY_DYNAMIC_DISPATCH(sum_gate_rows)(from, stride, rows, count, sums);
}

}  // namespace tessera::backends::cpu
#endif
