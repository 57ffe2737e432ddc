// One step of an optimiser over all parameters, in float32. Each element is read and written once; LARS and LAMB read
// twice, as they need the norms of each tensor first. The coefficients of the step that all elements share are computed
// in double precision.
#include "ops/training/optimiser_step.h"

#include <cmath>
#include <cstring>

#include "backends/cpu/optimisers/kernels.h"
#include "backends/cpu/optimisers/optimiser_rule.h"
#include "backends/cpu/optimisers/tensor_pieces.h"
#include "backends/host/numeric.h"

namespace tessera::backends::cpu {
namespace {

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
      : rule_(view), pieces_(counts_of(view)), parameters_(parameters_of(view)), decays_(parameters_, 0.0) {
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
    for (std::size_t i = 0; i < parameters_; ++i) numbers.push_back(rule_.numbers(decays_[i], rate, count, scalar(2)));
    if (needs_norms()) set_rates_by_norms(context, rate, numbers);
    const OptimiserFunctions::Update update = rule_.update();
    pieces_.for_each(context, [&](std::size_t i) { update(numbers[pieces_[i].tensor], operands(context, i)); });
  }

 private:
  bool needs_norms() const { return rule_.is_lars() || rule_.is_lamb(); }

  void set_rates_by_norms(KernelContext& context, double rate, std::vector<StepNumbers>& numbers) const {
    auto* sums = reinterpret_cast<double*>(context.scratch());
    const std::span<double> sizes(sums, pieces_.size()), changes(sums + pieces_.size(), pieces_.size());
    const auto norms = rule_.is_lars() ? rule_.functions().lars_norms : rule_.functions().lamb_norms;
    pieces_.for_each(context, [&](std::size_t i) {
      const SquaredNorms found = norms(numbers[pieces_[i].tensor], operands(context, i));
      sizes[i] = found.parameter;
      changes[i] = found.change;
    });
    const std::vector<double> parameters = pieces_.sum_by_tensor(sizes), others = pieces_.sum_by_tensor(changes);
    for (std::size_t i = 0; i < parameters_; ++i) {
      const double size = std::sqrt(parameters[i]), change = std::sqrt(others[i]);
      const bool both = size > 0 && change > 0;
      const double local = both ? rule_.trust() * size / (change + decays_[i] * size + rule_.epsilon()) : 1;
      numbers[i].gradient_rate = static_cast<float>(rate * local);
      if (rule_.is_lamb()) numbers[i].rate = static_cast<float>(both ? rate * size / change : rate);
    }
  }

  OptimiserOperands operands(KernelContext& context, std::size_t i) const {
    const TensorPiece& piece = pieces_[i];
    const auto from = [&](std::size_t group) {
      return context.input(ops::kOptimiserScalars + group * parameters_ + piece.tensor).data<float>() + piece.begin;
    };
    const auto to = [&](std::size_t group) {
      return context.output(group * parameters_ + piece.tensor).mutable_data<float>() + piece.begin;
    };
    OptimiserOperands operands{
        from(0), from(1), {nullptr, nullptr}, to(0), {nullptr, nullptr}, piece.end - piece.begin};
    for (std::size_t state = 0; state < rule_.states(); ++state) {
      operands.state[state] = from(2 + state);
      operands.new_state[state] = to(1 + state);
    }
    return operands;
  }

  // Keeps all parameters and states: the step is skipped.
  void keep_all(KernelContext& context) const {
    const auto keep = [](const float* from, float* to, std::int64_t count) {
      if (from != to) std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    };
    pieces_.for_each(context, [&](std::size_t i) {
      const OptimiserOperands o = operands(context, i);
      keep(o.parameter, o.new_parameter, o.count);
      for (std::size_t state = 0; state < rule_.states(); ++state) keep(o.state[state], o.new_state[state], o.count);
    });
  }

  OptimiserRule rule_;
  TensorPieces pieces_;
  std::size_t parameters_;
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
