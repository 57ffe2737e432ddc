#include "backends/cpu/recurrent/recurrent_gates.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

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

GateVector activate(GateTag d, const ops::GateActivation& function, GateVector x) {
  const GateVector zero = hn::Zero(d), one = hn::Set(d, 1.0f), alpha = hn::Set(d, function.alpha),
                   beta = hn::Set(d, function.beta);
  switch (function.kind) {
    case ops::GateActivationKind::affine:
      return hn::MulAdd(alpha, x, beta);
    case ops::GateActivationKind::relu:
      return math::at_least(d, x, 0.0f);
    case ops::GateActivationKind::leaky_relu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, x), x);
    case ops::GateActivationKind::thresholded_relu:
      return hn::IfThenElse(hn::Lt(x, alpha), zero, x);
    case ops::GateActivationKind::tanh:
      return math::tanh(d, x);
    case ops::GateActivationKind::sigmoid:
      return math::sigmoid(d, x);
    case ops::GateActivationKind::hard_sigmoid:
      return math::at_most(d, math::at_least(d, hn::MulAdd(alpha, x, beta), 0.0f), 1.0f);
    case ops::GateActivationKind::scaled_tanh:
      return hn::Mul(alpha, math::tanh(d, hn::Mul(beta, x)));
    case ops::GateActivationKind::elu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, math::expm1_of_nonpositive(d, math::at_most(d, x, 0.0f))),
                            x);
    case ops::GateActivationKind::softsign:
      return hn::Div(x, hn::Add(one, hn::Abs(x)));
    case ops::GateActivationKind::softplus:
      return hn::Add(math::at_least(d, x, 0.0f),
                     math::log1p_of_fraction(d, math::exp_of_nonpositive(d, hn::Neg(hn::Abs(x)))));
  }
  return x;
}

// Computes one vector of units of a row.
template <bool general>
struct GateUnits {
  const GateRow& row;
  std::int64_t u;
  GateTag d;
  hn::Mask<GateTag> mask;

  GateUnits(const GateRow& the_row, std::int64_t unit)
      : row(the_row),
        u(unit),
        mask(hn::FirstN(d, static_cast<std::size_t>(std::min(kGateLanes, the_row.count - unit)))) {}

  GateVector load(const float* from) const { return hn::MaskedLoad(mask, d, from + u); }
  void store(GateVector x, float* to) const { hn::BlendedStore(x, mask, d, to + u); }
  GateVector input(std::int64_t g) const { return load(row.input + g * row.count); }
  GateVector recurrent(std::int64_t g) const { return load(row.recurrent + g * row.count); }
  GateVector gate(std::int64_t g) const { return hn::Add(input(g), recurrent(g)); }
  // A gate, with peephole p of the cell.
  GateVector gate(std::int64_t g, std::int64_t p, GateVector cell) const {
    if (!general || row.peepholes == nullptr) return gate(g);
    return hn::MulAdd(load(row.peepholes + p * row.peephole_stride), cell, gate(g));
  }
  // The functions f, g and h of a layer.
  GateVector f(GateVector x) const { return general ? function(0, x) : math::sigmoid(d, x); }
  GateVector g(GateVector x) const { return general ? function(1, x) : math::tanh(d, x); }
  GateVector h(GateVector x) const { return general ? function(2, x) : math::tanh(d, x); }
  GateVector function(std::size_t i, GateVector x) const {
    const float clip = row.functions->clip;
    return activate(d, row.functions->activations[i], math::at_most(d, math::at_least(d, x, -clip), clip));
  }

  void keep(std::initializer_list<GateVector> values) const {
    if (row.kept == nullptr) return;
    float* to = row.kept;
    for (const GateVector& value : values) {
      store(value, to);
      to += row.kept_stride;
    }
  }
  void finish(GateVector hidden) const {
    store(hidden, row.hidden);
    if (row.output != nullptr) store(hidden, row.output);
  }
};

// i, o, f, c: C = f C' + i g(c), H = o h(C)
template <bool general>
void lstm_units(const GateRow& row) {
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const GateUnits<general> units(row, u);
    const GateVector before = units.load(row.cell);
    const GateVector i = units.f(units.gate(0, 0, before));
    const GateVector f =
        general && row.functions->input_forget ? hn::Sub(hn::Set(units.d, 1.0f), i) : units.f(units.gate(2, 2, before));
    const GateVector candidate = units.g(units.gate(3));
    const GateVector cell = hn::MulAdd(f, before, hn::Mul(i, candidate));
    const GateVector o = units.f(units.gate(1, 1, cell));
    units.store(cell, row.cell);
    units.keep({i, o, f, candidate, cell});
    units.finish(hn::Mul(o, units.h(cell)));
  }
}

// z, r, h: H = (1 - z) n + z H' with n = g(.. + r (R h + bias))
template <bool general>
void gru_units(const GateRow& row) {
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const GateUnits<general> units(row, u);
    const GateVector z = units.f(units.gate(0)), r = units.f(units.gate(1));
    GateVector memory = units.recurrent(2);
    if (row.recurrent_bias != nullptr) memory = hn::Add(memory, units.load(row.recurrent_bias));
    const GateVector n = units.g(hn::MulAdd(r, memory, units.input(2)));
    units.keep({z, r, n, memory});
    units.finish(hn::MulAdd(z, hn::Sub(units.load(row.previous), n), n));
  }
}

// A GRU whose r multiplies H' before the product has two parts: z and r ⊙ H' …
template <bool general>
void gru_reset_units(const GateRow& row) {
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const GateUnits<general> units(row, u);
    const GateVector z = units.f(units.gate(0)), r = units.f(units.gate(1));
    units.store(z, row.update);
    units.store(hn::Mul(r, units.load(row.previous)), row.reset);
  }
}
// … and H with n = g(.. + R (r ⊙ H'))
template <bool general>
void gru_candidate_units(const GateRow& row) {
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const GateUnits<general> units(row, u);
    const GateVector n = units.g(hn::Add(units.input(2), units.recurrent(0)));
    units.finish(hn::MulAdd(units.load(row.update), hn::Sub(units.load(row.previous), n), n));
  }
}

// H = tanh(.. + R h), or another function of it
template <bool general>
void rnn_units(const GateRow& row) {
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const GateUnits<general> units(row, u);
    const GateVector sum = units.gate(0);
    units.finish(general ? units.f(sum) : math::tanh(units.d, sum));
  }
}

void lstm_gates(const GateRow& row) {
  row.functions == nullptr ? lstm_units<false>(row) : lstm_units<true>(row);
}
void gru_gates(const GateRow& row) {
  row.functions == nullptr ? gru_units<false>(row) : gru_units<true>(row);
}
void gru_reset(const GateRow& row) {
  row.functions == nullptr ? gru_reset_units<false>(row) : gru_reset_units<true>(row);
}
void gru_candidate(const GateRow& row) {
  row.functions == nullptr ? gru_candidate_units<false>(row) : gru_candidate_units<true>(row);
}
void rnn_gates(const GateRow& row) {
  row.functions == nullptr ? rnn_units<false>(row) : rnn_units<true>(row);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(lstm_gates);
HWY_EXPORT(gru_gates);
HWY_EXPORT(gru_reset);
HWY_EXPORT(gru_candidate);
HWY_EXPORT(rnn_gates);

void apply_lstm_gates(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(lstm_gates)(row);
}
void apply_gru_gates(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(gru_gates)(row);
}
void apply_gru_reset(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(gru_reset)(row);
}
void apply_gru_candidate(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(gru_candidate)(row);
}
void apply_rnn_gates(const GateRow& row) {
  HWY_DYNAMIC_DISPATCH(rnn_gates)(row);
}

std::vector<GateFunctions> gate_functions(const ops::RecurrentPlan& plan, const ops::NodeView& view) {
  const std::int64_t gates = ops::gates_of(view.op());
  const std::size_t count = gates == 1 ? 1 : gates == 3 ? 2 : 3;
  const bool input_forget = gates == 4 && view.integer("input_forget") != 0;
  bool general = std::isfinite(plan.clip) || input_forget || (gates == 4 && view.has_input(7));
  std::vector<GateFunctions> functions(plan.directions, GateFunctions{{}, plan.clip, input_forget});
  for (std::size_t i = 0; i < plan.directions * count; ++i) {
    const ops::GateActivation& activation = plan.activations[i];
    functions[i / count].activations[i % count] = activation;
    general |= activation.kind !=
               (gates > 1 && i % count == 0 ? ops::GateActivationKind::sigmoid : ops::GateActivationKind::tanh);
  }
  return general ? functions : std::vector<GateFunctions>{};
}

}  // namespace tessera::backends::cpu
#endif
