// One step of an optimiser over all parameters at once, in float32. Each element is read and written once; LARS and
// LAMB read twice, as they need the norms of each tensor first. The operands of the step that all elements share are
// computed in double precision.
#include "ops/optimiser_step.h"

#include <cmath>
#include <cstring>

#include "backends/cpu/optimisers/kernels.h"
#include "backends/cpu/optimisers/tensor_pieces.h"
#include "backends/host/numeric.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/optimisers/optimiser_step.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/machine/vector_loop.h"
#include "backends/cpu/optimisers/squares.h"

#ifndef TESSERA_BACKENDS_CPU_OPTIMISER_STEP
#define TESSERA_BACKENDS_CPU_OPTIMISER_STEP
namespace tessera::backends::cpu {

// Elements of one parameter, its gradient and its states. Results may lie over their operands.
struct StepOperands {
  const float *parameter, *gradient, *state[2];
  float *new_parameter, *new_state[2];
  std::int64_t count;
};

// The numbers of a step for one parameter.
struct StepNumbers {
  float rate = 0;  // of the last product: with the correction of the first moment, the norms of LAMB
  float gradient_scale = 0, decay = 0, momentum = 0, epsilon = 0;
  float beta1 = 0, beta2 = 0, rest1 = 0, rest2 = 0;  // the decays of the moments, and 1 minus each
  float first = 0;                                   // LAMB: 1 / (1 − β1^t)
  float root = 0;                                    // 1 / sqrt(1 − β2^t)
  float keep = 1;                                    // AdamW: 1 − rate · decay
  float gradient_rate = 0;                           // LARS: rate times the local rate
  bool nesterov = false;
};

struct SquaredNorms {
  double parameter = 0, change = 0;
};

struct OptimiserFunctions {
  using Update = void (*)(const StepNumbers&, const StepOperands&);
  using Norms = SquaredNorms (*)(const StepNumbers&, const StepOperands&);
  Update sgd, sgd_momentum, adam, adagrad, lars, lamb;
  Norms lars_norms;  // of the parameter and the scaled gradient
  Norms lamb_norms;  // of the parameter and its change, after both moments took the gradient in
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V set(float value) {
  return hn::Set(D(), value);
}

// What a rule changes, a vector of elements.
struct Element {
  V parameter, gradient, first, second;
};

// The decay goes into the gradient.
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

// The second half of LAMB: its moments are those of this step.
struct Lamb {
  static constexpr int states = 0;
  HWY_INLINE void operator()(const StepNumbers& n, Element& e) const {
    e.parameter = hn::NegMulAdd(set(n.rate), lamb_change(n, e), e.parameter);
  }
};

template <class Rule>
void update(const StepNumbers& numbers, const StepOperands& operands) {
  const StepNumbers n = numbers;
  const StepOperands o = operands;
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

void lamb(const StepNumbers& numbers, const StepOperands& operands) {
  const StepNumbers n = numbers;
  const StepOperands o = operands;
  for_each_vector(o.count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    Element e{load(o.parameter + i), hn::Zero(D()), load(o.new_state[0] + i), load(o.new_state[1] + i)};
    Lamb()(n, e);
    store(e.parameter, o.new_parameter + i);
  });
}

SquaredNorms lars_norms(const StepNumbers& n, const StepOperands& o) {
  const double scale = static_cast<double>(n.gradient_scale);
  return {squares::sum(o.parameter, o.count), scale * scale * squares::sum(o.gradient, o.count)};
}

SquaredNorms lamb_norms(const StepNumbers& numbers, const StepOperands& operands) {
  const StepNumbers n = numbers;
  const StepOperands o = operands;
  SquaredNorms norms{squares::sum(o.parameter, o.count), 0};
  // Changes of a few vectors at a time are summed while they are in the cache.
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

OptimiserFunctions optimiser_functions() {
  return {update<Sgd>, update<SgdMomentum>, update<Adam>, update<Adagrad>, update<Lars>, lamb, lars_norms, lamb_norms};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(optimiser_functions);

enum class Algorithm { sgd, adam, adamw, adagrad, lars, lamb };

Algorithm algorithm_of(const std::string& name) {
  if (name == "sgd") return Algorithm::sgd;
  if (name == "adam") return Algorithm::adam;
  if (name == "adamw") return Algorithm::adamw;
  if (name == "adagrad") return Algorithm::adagrad;
  return name == "lars" ? Algorithm::lars : Algorithm::lamb;
}

std::size_t parameters_of(const ops::NodeView& view) {
  return (view.input_count() - ops::kOptimiserScalars) / (2 + ops::optimiser_states(view));
}

std::vector<std::int64_t> counts_of(const ops::NodeView& view) {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < parameters_of(view); ++i)
    counts.push_back(view.input(ops::kOptimiserScalars + i).elements());
  return counts;
}

class OptimiserStepKernel final : public Kernel {
 public:
  explicit OptimiserStepKernel(const ops::NodeView& view)
      : functions_(HWY_DYNAMIC_DISPATCH(optimiser_functions)()),
        pieces_(counts_of(view)),
        algorithm_(algorithm_of(view.text("algorithm"))),
        parameters_(parameters_of(view)),
        states_(ops::optimiser_states(view)),
        momentum_(ops::decimal(view.real("momentum"))),
        beta1_(ops::decimal(view.real("beta1"))),
        beta2_(ops::decimal(view.real("beta2"))),
        epsilon_(ops::decimal(view.real("epsilon"))),
        rate_decay_(ops::decimal(view.real("rate_decay"))),
        trust_(ops::decimal(view.real("trust"))),
        nesterov_(view.integer("nesterov") != 0),
        decays_(parameters_, 0.0) {
    if (!view.has_attribute("weight_decays")) return;
    for (std::size_t i = 0; i < parameters_; ++i) decays_[i] = ops::decimal(view.reals("weight_decays")[i]);
  }

  std::int64_t scratch_bytes() const override {
    return needs_norms() ? static_cast<std::int64_t>(2 * pieces_.size() * sizeof(double)) : 0;
  }

  void run(KernelContext& context) const override {
    const auto scalar = [&](std::size_t input) { return host::read<double>(context.input(input)).at(0); };
    if (scalar(3) == 0) return keep_all(context);
    const double rate = scalar(0), count = scalar(1);
    std::vector<StepNumbers> numbers;
    for (std::size_t i = 0; i < parameters_; ++i) numbers.push_back(numbers_of(i, rate, count, scalar(2)));
    if (needs_norms()) set_rates_by_norms(context, rate, numbers);
    const OptimiserFunctions::Update update = update_function();
    pieces_.for_each(context, [&](std::size_t i) { update(numbers[pieces_[i].tensor], operands(context, i)); });
  }

 private:
  bool needs_norms() const { return algorithm_ == Algorithm::lars || algorithm_ == Algorithm::lamb; }

  OptimiserFunctions::Update update_function() const {
    switch (algorithm_) {
      case Algorithm::sgd:
        return states_ > 0 ? functions_.sgd_momentum : functions_.sgd;
      case Algorithm::adagrad:
        return functions_.adagrad;
      case Algorithm::lars:
        return functions_.lars;
      case Algorithm::lamb:
        return functions_.lamb;
      default:
        return functions_.adam;
    }
  }

  // The rates of LARS and LAMB lack what the norms say.
  StepNumbers numbers_of(std::size_t parameter, double rate, double count, double scale) const {
    const double first = 1 - std::pow(beta1_, count), second = 1 - std::pow(beta2_, count), decay = decays_[parameter];
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

  void set_rates_by_norms(KernelContext& context, double rate, std::vector<StepNumbers>& numbers) const {
    auto* sums = reinterpret_cast<double*>(context.scratch());
    const std::span<double> sizes(sums, pieces_.size()), changes(sums + pieces_.size(), pieces_.size());
    const auto norms = algorithm_ == Algorithm::lars ? functions_.lars_norms : functions_.lamb_norms;
    pieces_.for_each(context, [&](std::size_t i) {
      const SquaredNorms found = norms(numbers[pieces_[i].tensor], operands(context, i));
      sizes[i] = found.parameter;
      changes[i] = found.change;
    });
    const std::vector<double> parameters = pieces_.sum_by_tensor(sizes), others = pieces_.sum_by_tensor(changes);
    for (std::size_t i = 0; i < parameters_; ++i) {
      const double size = std::sqrt(parameters[i]), change = std::sqrt(others[i]);
      const bool both = size > 0 && change > 0;
      const double local = both ? trust_ * size / (change + decays_[i] * size + epsilon_) : 1;
      numbers[i].gradient_rate = static_cast<float>(rate * local);
      if (algorithm_ == Algorithm::lamb) numbers[i].rate = static_cast<float>(both ? rate * size / change : rate);
    }
  }

  StepOperands operands(KernelContext& context, std::size_t i) const {
    const TensorPiece& piece = pieces_[i];
    const auto from = [&](std::size_t group) {
      return context.input(ops::kOptimiserScalars + group * parameters_ + piece.tensor).data<float>() + piece.begin;
    };
    const auto to = [&](std::size_t group) {
      return context.output(group * parameters_ + piece.tensor).mutable_data<float>() + piece.begin;
    };
    StepOperands operands{from(0), from(1), {nullptr, nullptr}, to(0), {nullptr, nullptr}, piece.end - piece.begin};
    for (std::size_t state = 0; state < states_; ++state) {
      operands.state[state] = from(2 + state);
      operands.new_state[state] = to(1 + state);
    }
    return operands;
  }

  // A step that is not taken.
  void keep_all(KernelContext& context) const {
    const auto keep = [](const float* from, float* to, std::int64_t count) {
      if (from != to) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    };
    pieces_.for_each(context, [&](std::size_t i) {
      const StepOperands o = operands(context, i);
      keep(o.parameter, o.new_parameter, o.count);
      for (std::size_t state = 0; state < states_; ++state) keep(o.state[state], o.new_state[state], o.count);
    });
  }

  OptimiserFunctions functions_;
  TensorPieces pieces_;
  Algorithm algorithm_;
  std::size_t parameters_, states_;
  double momentum_, beta1_, beta2_, epsilon_, rate_decay_, trust_;
  bool nesterov_;
  std::vector<double> decays_;
};

}  // namespace

std::string reject_optimiser_step(const ops::NodeView& view) {
  const std::size_t results = (1 + ops::optimiser_states(view)) * parameters_of(view);
  for (std::size_t i = 0; i < results; ++i) {
    if (!view.wants_output(i)) return "gives all results";
    if (view.output(i).dtype != DType::f32) return "takes parameters in f32";
  }
  return "";
}

KernelPointer make_optimiser_step(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<OptimiserStepKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
