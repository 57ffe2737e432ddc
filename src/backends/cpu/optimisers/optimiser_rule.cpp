#include "backends/cpu/optimisers/optimiser_rule.h"

#include <cmath>

#include "ops/training/optimiser_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/optimisers/optimiser_rule.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/machine/vector_loop.h"
#include "backends/cpu/optimisers/squares.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V set(float value) {
  return hn::Set(D(), value);
}

// The values that a rule changes, as vectors of elements.
struct Element {
  V parameter, gradient, first, second;
};

// The gradient plus weight decay (L2 regularisation).
HWY_INLINE V decayed(const StepNumbers& n, const Element& e) {
  return hn::MulAdd(set(n.decay), e.parameter, hn::Mul(e.gradient, set(n.gradient_scale)));
}

struct Sgd {
  static constexpr int states = 0;
  HWY_INLINE void operator()(const StepNumbers& n, Element& e) const {
    e.parameter = hn::NegMulAdd(set(n.rate), decayed(n, e), e.parameter);
  }
};

struct SgdMomentum {
  static constexpr int states = 1;
  HWY_INLINE void operator()(const StepNumbers& n, Element& e) const {
    const V g = decayed(n, e);
    e.first = hn::MulAdd(set(n.momentum), e.first, g);
    const V change = n.nesterov ? hn::MulAdd(set(n.momentum), e.first, g) : e.first;
    e.parameter = hn::NegMulAdd(set(n.rate), change, e.parameter);
  }
};

HWY_INLINE void add_to_moments(const StepNumbers& n, V g, Element& e) {
  e.first = hn::MulAdd(set(n.beta1), e.first, hn::Mul(set(n.rest1), g));
  e.second = hn::MulAdd(set(n.beta2), e.second, hn::Mul(hn::Mul(set(n.rest2), g), g));
}
HWY_INLINE V deviation(const StepNumbers& n, V second) {
  return hn::MulAdd(hn::Sqrt(second), set(n.root), set(n.epsilon));
}

// Adam (keep = 1) and AdamW (decay = 0).
struct Adam {
  static constexpr int states = 2;
  HWY_INLINE void operator()(const StepNumbers& n, Element& e) const {
    add_to_moments(n, decayed(n, e), e);
    const V kept = hn::Mul(e.parameter, set(n.keep));
    e.parameter = hn::NegMulAdd(set(n.rate), hn::Div(e.first, deviation(n, e.second)), kept);
  }
};

struct Adagrad {
  static constexpr int states = 1;
  HWY_INLINE void operator()(const StepNumbers& n, Element& e) const {
    const V g = decayed(n, e);
    e.first = hn::MulAdd(g, g, e.first);
    e.parameter = hn::NegMulAdd(set(n.rate), hn::Div(g, hn::Add(hn::Sqrt(e.first), set(n.epsilon))), e.parameter);
  }
};

struct Lars {
  static constexpr int states = 1;
  HWY_INLINE void operator()(const StepNumbers& n, Element& e) const {
    e.first = hn::MulAdd(set(n.momentum), e.first, hn::Mul(set(n.gradient_rate), decayed(n, e)));
    e.parameter = hn::Sub(e.parameter, e.first);
  }
};

HWY_INLINE V lamb_change(const StepNumbers& n, const Element& e) {
  const V direction = hn::Div(hn::Mul(e.first, set(n.first)), deviation(n, e.second));
  return hn::MulAdd(set(n.decay), e.parameter, direction);
}

// The second half of LAMB: the moments are already those of this step.
struct Lamb {
  static constexpr int states = 0;
  HWY_INLINE void operator()(const StepNumbers& n, Element& e) const {
    e.parameter = hn::NegMulAdd(set(n.rate), lamb_change(n, e), e.parameter);
  }
};

template <class Rule>
void update(const StepNumbers& numbers, const OptimiserOperands& operands) {
  const StepNumbers n = numbers;
  const OptimiserOperands o = operands;
  for_each_vector(o.count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    Element e{load(o.parameter + i), load(o.gradient + i), hn::Zero(D()), hn::Zero(D())};
    if constexpr (Rule::states > 0) e.first = load(o.state[0] + i);
    if constexpr (Rule::states > 1) e.second = load(o.state[1] + i);
    Rule()(n, e);
    store(e.parameter, o.new_parameter + i);
    if constexpr (Rule::states > 0) store(e.first, o.new_state[0] + i);
    if constexpr (Rule::states > 1) store(e.second, o.new_state[1] + i);
  });
}

void lamb(const StepNumbers& numbers, const OptimiserOperands& operands) {
  const StepNumbers n = numbers;
  const OptimiserOperands o = operands;
  for_each_vector(o.count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    Element e{load(o.parameter + i), hn::Zero(D()), load(o.new_state[0] + i), load(o.new_state[1] + i)};
    Lamb()(n, e);
    store(e.parameter, o.new_parameter + i);
  });
}

SquaredNorms lars_norms(const StepNumbers& n, const OptimiserOperands& o) {
  const double scale = static_cast<double>(n.gradient_scale);
  return {squares::sum(o.parameter, o.count), scale * scale * squares::sum(o.gradient, o.count)};
}

SquaredNorms lamb_norms(const StepNumbers& numbers, const OptimiserOperands& operands) {
  const StepNumbers n = numbers;
  const OptimiserOperands o = operands;
  SquaredNorms norms{squares::sum(o.parameter, o.count), 0};
  // Elements whose changes are summed while they are in the cache.
  constexpr std::int64_t kTogether = 1024;
  HWY_ALIGN float changes[kTogether];
  for (std::int64_t begin = 0; begin < o.count; begin += kTogether) {
    const std::int64_t count = o.count - begin < kTogether ? o.count - begin : kTogether;
    for_each_vector(count, [&](std::int64_t at, auto load, auto store) HWY_ATTR {
      const std::int64_t i = begin + at;
      Element e{load(o.parameter + i), load(o.gradient + i), load(o.state[0] + i), load(o.state[1] + i)};
      add_to_moments(n, hn::Mul(e.gradient, set(n.gradient_scale)), e);
      store(e.first, o.new_state[0] + i);
      store(e.second, o.new_state[1] + i);
      store(lamb_change(n, e), changes + at);
    });
    norms.change += squares::sum(changes, count);
  }
  return norms;
}

}  // namespace

const OptimiserFunctions* optimiser_functions() {
  static constexpr OptimiserFunctions functions{
      update<Sgd>, update<SgdMomentum>, update<Adam>, update<Adagrad>, update<Lars>, lamb, lars_norms, lamb_norms};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(optimiser_functions);

OptimiserRule::OptimiserRule(const ops::AttributeReader& reader)
    : functions_(HWY_DYNAMIC_DISPATCH(optimiser_functions)()),
      algorithm_(algorithm_of(reader.text("algorithm"))),
      states_(ops::optimiser_states(reader)),
      momentum_(ops::decimal(reader.real("momentum"))),
      beta1_(ops::decimal(reader.real("beta1"))),
      beta2_(ops::decimal(reader.real("beta2"))),
      epsilon_(ops::decimal(reader.real("epsilon"))),
      rate_decay_(ops::decimal(reader.real("rate_decay"))),
      trust_(ops::decimal(reader.real("trust"))),
      nesterov_(reader.integer("nesterov") != 0) {}

OptimiserRule::Algorithm OptimiserRule::algorithm_of(const std::string& name) {
  if (name == "sgd") return Algorithm::sgd;
  if (name == "adam") return Algorithm::adam;
  if (name == "adamw") return Algorithm::adamw;
  if (name == "adagrad") return Algorithm::adagrad;
  return name == "lars" ? Algorithm::lars : Algorithm::lamb;
}

OptimiserFunctions::Update OptimiserRule::update() const {
  switch (algorithm_) {
    case Algorithm::sgd:
      return states_ > 0 ? functions_->sgd_momentum : functions_->sgd;
    case Algorithm::adagrad:
      return functions_->adagrad;
    case Algorithm::lars:
      return functions_->lars;
    case Algorithm::lamb:
      return functions_->lamb;
    default:
      return functions_->adam;
  }
}

StepNumbers OptimiserRule::numbers(double decay, double rate, double count, double scale) const {
  const double first = 1 - std::pow(beta1_, count), second = 1 - std::pow(beta2_, count);
  const bool decoupled = algorithm_ == Algorithm::adamw, adam = decoupled || algorithm_ == Algorithm::adam;
  StepNumbers n;
  n.gradient_scale = static_cast<float>(scale);
  n.decay = static_cast<float>(decoupled ? 0 : decay);
  n.keep = static_cast<float>(decoupled ? 1 - rate * decay : 1);
  n.momentum = static_cast<float>(momentum_);
  n.epsilon = static_cast<float>(epsilon_);
  n.beta1 = static_cast<float>(beta1_);
  n.beta2 = static_cast<float>(beta2_);
  n.rest1 = static_cast<float>(1 - beta1_);
  n.rest2 = static_cast<float>(1 - beta2_);
  n.first = static_cast<float>(1 / first);
  n.root = static_cast<float>(1 / std::sqrt(second));
  n.nesterov = nesterov_;
  const double slowed = algorithm_ == Algorithm::adagrad ? rate / (1 + (count - 1) * rate_decay_) : rate;
  n.rate = static_cast<float>(adam ? rate / first : slowed);
  return n;
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
