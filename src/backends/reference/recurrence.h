// The loop over time shared by the recurrent layers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/recurrent_gradient.h"

namespace tessera::backends::reference {

using namespace host;

inline double apply(const ops::GateActivation& activation, double x, double clip) {
  x = std::clamp(x, -clip, clip);
  const double alpha = activation.alpha, beta = activation.beta;
  switch (activation.kind) {
    case ops::GateActivationKind::affine:
      return alpha * x + beta;
    case ops::GateActivationKind::relu:
      return x < 0 ? 0 : x;
    case ops::GateActivationKind::leaky_relu:
      return x < 0 ? alpha * x : x;
    case ops::GateActivationKind::thresholded_relu:
      return x < alpha ? 0 : x;
    case ops::GateActivationKind::tanh:
      return std::tanh(x);
    case ops::GateActivationKind::sigmoid:
      return 1 / (1 + std::exp(-x));
    case ops::GateActivationKind::hard_sigmoid:
      return std::clamp(alpha * x + beta, 0.0, 1.0);
    case ops::GateActivationKind::scaled_tanh:
      return alpha * std::tanh(beta * x);
    case ops::GateActivationKind::elu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case ops::GateActivationKind::softsign:
      return x / (1 + std::abs(x));
    case ops::GateActivationKind::softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  return x;
}

// Operands of RNN, GRU and LSTM as doubles; absent biases, states and peepholes are zero.
struct RecurrentOperands {
  std::int64_t length, batch, features, hidden, gates;
  std::vector<double> x, w, r, b, h, c, p;
  std::vector<std::int64_t> lengths;  // of every sequence of the batch
};

// One time step of one sequence. Rows of gate g are [g * hidden, (g + 1) * hidden) of each vector.
struct RecurrentStep {
  std::size_t direction;
  std::int64_t hidden;
  const std::vector<double>& input;  // W x + Wb
  const double* recurrence;          // R of this direction, [gates * hidden, hidden]
  const double* recurrence_bias;     // Rb, [gates * hidden]
  const double* peepholes;           // P, [3 * hidden]
  std::vector<double>& h;            // in: the previous state; out: the new one
  std::vector<double>& c;
  double* kept;  // receives ops::kept_gates values, each `hidden` apart; null: not kept

  void keep(std::int64_t value, std::int64_t j, double x) const {
    if (kept != nullptr) kept[value * hidden + j] = x;
  }

  // Row `row` of R times `state`, with the bias.
  double recur(std::int64_t row, const std::vector<double>& state) const {
    double sum = recurrence_bias[row];
    for (std::int64_t k = 0; k < hidden; ++k) sum += recurrence[row * hidden + k] * state[static_cast<std::size_t>(k)];
    return sum;
  }
  double gate(std::int64_t g, std::int64_t j) const {
    const std::int64_t row = g * hidden + j;
    return input[static_cast<std::size_t>(row)] + recur(row, h);
  }
};

RecurrentOperands read_recurrent_operands(const KernelContext& context, const ops::RecurrentPlan& plan);

// Runs step(RecurrentStep&) over time for every sequence and direction and writes Y, Y_h, Y_c and the gates, as far as
// they are wanted. Positions after the end of a sequence are zero in Y; a sequence of length 0 keeps its initial state.
template <typename Step>
void run_recurrence(KernelContext& context, const ops::RecurrentPlan& plan, const RecurrentOperands& in, Step step) {
  const std::int64_t directions = static_cast<std::int64_t>(plan.directions), hidden = in.hidden,
                     rows = in.gates * hidden;
  std::vector<double> y = transient_vector<double>(in.length * directions * in.batch * hidden, 0.0);
  const std::int64_t values = ops::kept_gates(context.op());
  std::vector<double> kept = transient_vector<double>(values * directions * in.length * in.batch * hidden, 0.0);
  std::vector<double> last_h(static_cast<std::size_t>(directions * in.batch * hidden)), last_c(last_h.size());
  context.parallel_for(directions * in.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t d = i / in.batch, n = i % in.batch, length = in.lengths[static_cast<std::size_t>(n)];
      const std::int64_t state = (plan.batch_first ? n * directions + d : d * in.batch + n) * hidden;
      std::vector<double> h(in.h.begin() + state, in.h.begin() + state + hidden);
      std::vector<double> c(in.c.begin() + state, in.c.begin() + state + hidden);
      std::vector<double> input(static_cast<std::size_t>(rows));
      const double* bias = in.b.data() + d * 2 * rows;
      for (std::int64_t s = 0; s < length; ++s) {
        context.check_stop();
        const std::int64_t t = plan.reverse(static_cast<std::size_t>(d)) ? length - 1 - s : s;
        const double* x = in.x.data() + (plan.batch_first ? n * in.length + t : t * in.batch + n) * in.features;
        for (std::int64_t row = 0; row < rows; ++row) {
          const double* weights = in.w.data() + (d * rows + row) * in.features;
          double sum = bias[row];
          for (std::int64_t k = 0; k < in.features; ++k) sum += weights[k] * x[k];
          input[static_cast<std::size_t>(row)] = sum;
        }
        RecurrentStep now{static_cast<std::size_t>(d),
                          hidden,
                          input,
                          in.r.data() + d * rows * hidden,
                          bias + rows,
                          in.p.data() + d * 3 * hidden,
                          h,
                          c,
                          values == 0 ? nullptr : kept.data() + ((d * in.length + t) * in.batch + n) * values * hidden};
        step(now);
        const std::int64_t at =
            plan.batch_first ? (n * in.length + t) * directions + d : (t * directions + d) * in.batch + n;
        std::copy(h.begin(), h.end(), y.begin() + at * hidden);
      }
      std::copy(h.begin(), h.end(), last_h.begin() + state);
      std::copy(c.begin(), c.end(), last_c.begin() + state);
    }
  });
  if (context.wants_output(0)) write(y, context.output(0));
  if (context.wants_output(1)) write(last_h, context.output(1));
  const std::size_t gates = in.gates == 4 ? 3 : 2;
  if (in.gates == 4 && context.wants_output(2)) write(last_c, context.output(2));
  if (values > 0 && context.wants_output(gates)) write(kept, context.output(gates));
}

}  // namespace tessera::backends::reference
