#include "backends/backend.h"
#include "backends/reference/recurrence.h"

namespace tessera::backends::reference {

RecurrentOperands read_recurrent_operands(const KernelContext& context, const ops::RecurrentPlan& plan) {
  const Shape& x = context.input(0).shape();
  const Shape& recurrence = context.input(2).shape();
  RecurrentOperands in;
  in.length = x[plan.batch_first ? 1 : 0];
  in.batch = x[plan.batch_first ? 0 : 1];
  in.features = x[2];
  in.hidden = recurrence[2];
  in.gates = ops::gates_of(context.op());
  const std::int64_t directions = static_cast<std::int64_t>(plan.directions);
  const auto read_or_zeros = [&](std::size_t i, std::int64_t count) {
    return context.has_input(i) ? read<double>(context.input(i))
                                : std::vector<double>(static_cast<std::size_t>(count), 0.0);
  };
  in.x = read<double>(context.input(0));
  in.w = read<double>(context.input(1));
  in.r = read<double>(context.input(2));
  in.b = read_or_zeros(3, directions * 2 * in.gates * in.hidden);
  in.h = read_or_zeros(5, directions * in.batch * in.hidden);
  const bool lstm = in.gates == 4;  // in other operators these indices may be other inputs
  in.c = lstm ? read_or_zeros(6, directions * in.batch * in.hidden)
              : std::vector<double>(static_cast<std::size_t>(directions * in.batch * in.hidden), 0.0);
  in.p = lstm ? read_or_zeros(7, directions * 3 * in.hidden)
              : std::vector<double>(static_cast<std::size_t>(directions * 3 * in.hidden), 0.0);
  in.lengths.assign(static_cast<std::size_t>(in.batch), in.length);
  if (context.has_input(4)) in.lengths = read<std::int64_t>(context.input(4));
  for (const std::int64_t length : in.lengths) {
    require(length >= 0 && length <= in.length, ErrorKind::failed, "sequence length {} is outside [0, {}]", length,
            in.length);
  }
  return in;
}

void rnn(KernelContext& context) {
  const ops::RecurrentPlan plan = ops::read_recurrent(context);
  run_recurrence(context, plan, read_recurrent_operands(context, plan), [&](RecurrentStep& step) {
    std::vector<double> next(step.h.size());
    for (std::int64_t j = 0; j < step.hidden; ++j) {
      next[static_cast<std::size_t>(j)] = apply(plan.activations[step.direction], step.gate(0, j), plan.clip);
    }
    step.h = std::move(next);
  });
}

void gru(KernelContext& context) {
  const ops::RecurrentPlan plan = ops::read_recurrent(context);
  const bool linear_before_reset = context.integer("linear_before_reset") != 0;
  run_recurrence(context, plan, read_recurrent_operands(context, plan), [&](RecurrentStep& step) {
    const ops::GateActivation &f = plan.activations[step.direction * 2], &g = plan.activations[step.direction * 2 + 1];
    std::vector<double> z(step.h.size()), r(step.h.size()), reset(step.h.size()), next(step.h.size());
    for (std::size_t j = 0; j < z.size(); ++j) {
      z[j] = apply(f, step.gate(0, static_cast<std::int64_t>(j)), plan.clip);
      r[j] = apply(f, step.gate(1, static_cast<std::int64_t>(j)), plan.clip);
      reset[j] = r[j] * step.h[j];
    }
    for (std::size_t j = 0; j < z.size(); ++j) {
      const std::int64_t row = 2 * step.hidden + static_cast<std::int64_t>(j);
      const double recurrent = linear_before_reset ? r[j] * step.recur(row, step.h) : step.recur(row, reset);
      const double h = apply(g, step.input[static_cast<std::size_t>(row)] + recurrent, plan.clip);
      const std::int64_t unit = static_cast<std::int64_t>(j);
      step.keep(0, unit, z[j]);
      step.keep(1, unit, r[j]);
      step.keep(2, unit, h);
      step.keep(3, unit, linear_before_reset ? step.recur(row, step.h) : reset[j]);
      next[j] = (1 - z[j]) * h + z[j] * step.h[j];
    }
    step.h = std::move(next);
  });
}

void lstm(KernelContext& context) {
  const ops::RecurrentPlan plan = ops::read_recurrent(context);
  const bool input_forget = context.integer("input_forget") != 0;
  run_recurrence(context, plan, read_recurrent_operands(context, plan), [&](RecurrentStep& step) {
    const ops::GateActivation* activations = plan.activations.data() + step.direction * 3;
    std::vector<double> next(step.h.size());
    for (std::int64_t j = 0; j < step.hidden; ++j) {
      const double previous = step.c[static_cast<std::size_t>(j)];
      const double* p = step.peepholes + j;
      const double i = apply(activations[0], step.gate(0, j) + p[0] * previous, plan.clip);
      const double f =
          input_forget ? 1 - i : apply(activations[0], step.gate(2, j) + p[2 * step.hidden] * previous, plan.clip);
      const double candidate = apply(activations[1], step.gate(3, j), plan.clip), c = f * previous + i * candidate;
      const double o = apply(activations[0], step.gate(1, j) + p[step.hidden] * c, plan.clip);
      const double kept[] = {i, o, f, candidate, c};
      for (std::int64_t k = 0; k < 5; ++k) step.keep(k, j, kept[k]);
      step.c[static_cast<std::size_t>(j)] = c;
      next[static_cast<std::size_t>(j)] = o * apply(activations[2], c, plan.clip);
    }
    step.h = std::move(next);
  });
}

}  // namespace tessera::backends::reference
