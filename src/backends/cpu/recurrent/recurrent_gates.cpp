#include "backends/cpu/recurrent/recurrent_gates.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/recurrent/recurrent_gates.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using GateTag = hn::ScalableTag<float>;
using GateVector = hn::Vec<GateTag>;
constexpr std::int64_t kGateLanes = HWY_LANES(float);

// i, o, f, c: C = sigmoid(f) C' + sigmoid(i) tanh(c), H = sigmoid(o) tanh(C)
void lstm_gates(const GateRow& row) {
  const GateTag d;
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kGateLanes, row.count - u)));
    const auto gate = [&](std::int64_t g) HWY_ATTR {
      const std::int64_t at = g * row.count + u;
      return hn::Add(hn::MaskedLoad(mask, d, row.input + at), hn::MaskedLoad(mask, d, row.recurrent + at));
    };
    const GateVector i = math::sigmoid(d, gate(0)), o = math::sigmoid(d, gate(1)), f = math::sigmoid(d, gate(2));
    const GateVector candidate = math::tanh(d, gate(3));
    const GateVector cell = hn::MulAdd(f, hn::MaskedLoad(mask, d, row.cell + u), hn::Mul(i, candidate));
    const GateVector hidden = hn::Mul(o, math::tanh(d, cell));
    hn::BlendedStore(cell, mask, d, row.cell + u);
    if (row.kept != nullptr) {
      const GateVector kept[] = {i, o, f, candidate, cell};
      for (std::int64_t g = 0; g < 5; ++g) hn::BlendedStore(kept[g], mask, d, row.kept + g * row.kept_stride + u);
    }
    hn::BlendedStore(hidden, mask, d, row.hidden + u);
    if (row.output != nullptr) hn::BlendedStore(hidden, mask, d, row.output + u);
  }
}

// z, r, h: H = (1 - sigmoid(z)) n + sigmoid(z) H' with n = tanh(h + sigmoid(r) (R h + bias))
void gru_gates(const GateRow& row) {
  const GateTag d;
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kGateLanes, row.count - u)));
    const auto input = [&](std::int64_t g) HWY_ATTR { return hn::MaskedLoad(mask, d, row.input + g * row.count + u); };
    const auto recurrent = [&](std::int64_t g)
                               HWY_ATTR { return hn::MaskedLoad(mask, d, row.recurrent + g * row.count + u); };
    const GateVector z = math::sigmoid(d, hn::Add(input(0), recurrent(0)));
    const GateVector r = math::sigmoid(d, hn::Add(input(1), recurrent(1)));
    GateVector memory = recurrent(2);
    if (row.recurrent_bias != nullptr) memory = hn::Add(memory, hn::MaskedLoad(mask, d, row.recurrent_bias + u));
    const GateVector n = math::tanh(d, hn::MulAdd(r, memory, input(2)));
    const GateVector hidden = hn::MulAdd(z, hn::Sub(hn::MaskedLoad(mask, d, row.previous + u), n), n);
    hn::BlendedStore(hidden, mask, d, row.hidden + u);
    if (row.output != nullptr) hn::BlendedStore(hidden, mask, d, row.output + u);
    if (row.kept != nullptr) {
      const GateVector kept[] = {z, r, n, memory};
      for (std::int64_t g = 0; g < 4; ++g) hn::BlendedStore(kept[g], mask, d, row.kept + g * row.kept_stride + u);
    }
  }
}

// H = tanh(.. + R h), or the same with relu
void rnn_gates(const GateRow& row) {
  const GateTag d;
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kGateLanes, row.count - u)));
    const GateVector sum = hn::Add(hn::MaskedLoad(mask, d, row.input + u), hn::MaskedLoad(mask, d, row.recurrent + u));
    const GateVector hidden = row.relu ? hn::Max(sum, hn::Zero(d)) : math::tanh(d, sum);
    hn::BlendedStore(hidden, mask, d, row.hidden + u);
    if (row.output != nullptr) hn::BlendedStore(hidden, mask, d, row.output + u);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(lstm_gates);
HWY_EXPORT(gru_gates);
HWY_EXPORT(rnn_gates);

void apply_lstm_gates(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(lstm_gates)(row);
}
void apply_gru_gates(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(gru_gates)(row);
}
void apply_rnn_gates(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(rnn_gates)(row);
}

}  // namespace tessera::backends::cpu
#endif
