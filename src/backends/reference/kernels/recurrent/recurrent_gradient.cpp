#include "ops/recurrent/recurrent_gradient.h"

#include "backends/reference/recurrence.h"

namespace tessera::backends::reference {

namespace {

// Sums of gradients, each in the layout of its operand.
struct Gradients {
  std::vector<double> x, w, r, b, h, c, p;
};

// Backpropagates through one sequence in one direction, from its last step to its first. Names are those of
// recurrent.cpp's comments; a leading d means the gradient.
class Backward {
 public:
  Backward(const KernelContext& context, const ops::RecurrentPlan& plan, const RecurrentOperands& in)
      : plan_(plan),
        in_(in),
        linear_before_reset_(in.gates == 3 && context.integer("linear_before_reset") != 0),
        y_(read<double>(context.input(ops::recurrent_gradient_inputs(context.op()).y))) {
    const auto read_or_zeros = [&](std::size_t i, std::size_t count) {
      return context.has_input(i) ? read<double>(context.input(i)) : std::vector<double>(count, 0.0);
    };
    const ops::RecurrentGradientInputs inputs = ops::recurrent_gradient_inputs(context.op());
    kept_ = read_or_zeros(inputs.gates, 0);
    dy_ = read_or_zeros(inputs.dy, y_.size());
    dlast_h_ = read_or_zeros(inputs.dh, in.h.size());
    dlast_c_ = read_or_zeros(inputs.dc, in.c.size());
    for (auto [sum, operand] : {std::pair(&sums.x, &in.x),
                                {&sums.w, &in.w},
                                {&sums.r, &in.r},
                                {&sums.b, &in.b},
                                {&sums.h, &in.h},
                                {&sums.c, &in.c},
                                {&sums.p, &in.p}})
      sum->assign(operand->size(), 0.0);
  }

  void run(std::int64_t direction, std::int64_t sequence) {
    d_ = direction;
    n_ = sequence;
    const std::int64_t directions = static_cast<std::int64_t>(plan_.directions), hidden = in_.hidden,
                       length = in_.lengths[static_cast<std::size_t>(n_)];
    const std::int64_t state = (plan_.batch_first ? n_ * directions + d_ : d_ * in_.batch + n_) * hidden;
    const auto slice = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + state, all.begin() + state + hidden);
    };
    dh_ = slice(dlast_h_);
    dc_ = slice(dlast_c_);
    for (std::int64_t s = length; s-- > 0;) {
      const std::int64_t t = time(s, length);
      const std::vector<double> before = s > 0 ? hidden_at(time(s - 1, length)) : slice(in_.h);
      const std::vector<double> cell = in_.gates != 4 ? std::vector<double>{}
                                       : s > 0        ? kept_at(time(s - 1, length), 4)
                                                      : slice(in_.c);
      for (std::int64_t j = 0; j < hidden; ++j) dh_[u(j)] += dy_[u(y_offset(t) + j)];
      step(t, before, cell);
    }
    std::copy(dh_.begin(), dh_.end(), sums.h.begin() + state);
    std::copy(dc_.begin(), dc_.end(), sums.c.begin() + state);
  }

  Gradients sums;

 private:
  static std::size_t u(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t time(std::int64_t s, std::int64_t length) const { return plan_.reverse(u(d_)) ? length - 1 - s : s; }
  std::int64_t y_offset(std::int64_t t) const {
    const std::int64_t directions = static_cast<std::int64_t>(plan_.directions);
    return (plan_.batch_first ? (n_ * in_.length + t) * directions + d_ : (t * directions + d_) * in_.batch + n_) *
           in_.hidden;
  }
  std::vector<double> hidden_at(std::int64_t t) const {
    return {y_.begin() + y_offset(t), y_.begin() + y_offset(t) + in_.hidden};
  }
  std::vector<double> kept_at(std::int64_t t, std::int64_t value) const {
    const auto from = kept_.begin() + (((d_ * in_.length + t) * in_.batch + n_) * (in_.gates + 1) + value) * in_.hidden;
    return {from, from + in_.hidden};
  }

  void step(std::int64_t t, const std::vector<double>& before, const std::vector<double>& cell) {
    const std::int64_t hidden = in_.hidden, rows = in_.gates * hidden;
    std::vector<double> input(u(rows)), next(u(hidden), 0.0);  // of gates before their activations; of `before`
    if (in_.gates == 4) lstm(t, cell, input);
    else if (in_.gates == 3) gru(t, before, input, next);
    else rnn(t, input);
    std::vector<double> recurrent = input;  // the gradients of R's product
    if (in_.gates == 3 && linear_before_reset_) {
      const std::vector<double> r = kept_at(t, 1);
      for (std::int64_t j = 0; j < hidden; ++j) recurrent[u(2 * hidden + j)] *= r[u(j)];
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* w = in_.w.data() + (d_ * rows + row) * in_.features;
      const double* r = in_.r.data() + (d_ * rows + row) * hidden;
      const std::int64_t x = (plan_.batch_first ? n_ * in_.length + t : t * in_.batch + n_) * in_.features;
      for (std::int64_t k = 0; k < in_.features; ++k) {
        sums.w[u((d_ * rows + row) * in_.features + k)] += input[u(row)] * in_.x[u(x + k)];
        sums.x[u(x + k)] += input[u(row)] * w[k];
      }
      const bool gated = in_.gates == 3 && !linear_before_reset_ && row >= 2 * hidden;  // R is multiplied by r ⊙ H'
      const std::vector<double> met = gated ? kept_at(t, 3) : before;
      for (std::int64_t k = 0; k < hidden; ++k) {
        sums.r[u((d_ * rows + row) * hidden + k)] += recurrent[u(row)] * met[u(k)];
        if (!gated) next[u(k)] += recurrent[u(row)] * r[k];
      }
      sums.b[u(d_ * 2 * rows + row)] += input[u(row)];
      sums.b[u(d_ * 2 * rows + rows + row)] += recurrent[u(row)];
    }
    dh_ = std::move(next);
  }

  void rnn(std::int64_t t, std::vector<double>& input) const {
    const bool relu = plan_.activations[u(d_)].kind == ops::GateActivationKind::relu;
    const std::vector<double> h = hidden_at(t);
    for (std::size_t j = 0; j < h.size(); ++j) input[j] = relu ? (h[j] > 0 ? dh_[j] : 0) : dh_[j] * (1 - h[j] * h[j]);
  }

  void gru(std::int64_t t, const std::vector<double>& before, std::vector<double>& input, std::vector<double>& next) {
    const std::int64_t hidden = in_.hidden;
    const std::vector<double> z = kept_at(t, 0), r = kept_at(t, 1), h = kept_at(t, 2), memory = kept_at(t, 3);
    std::vector<double> dmemory(u(hidden), 0.0);  // without linear_before_reset: of r ⊙ H'
    for (std::size_t j = 0; j < z.size(); ++j) {
      input[j] = dh_[j] * (before[j] - h[j]) * z[j] * (1 - z[j]);
      input[u(2 * hidden) + j] = dh_[j] * (1 - z[j]) * (1 - h[j] * h[j]);
      next[j] = dh_[j] * z[j];
    }
    const double* r_hidden = in_.r.data() + (d_ * 3 + 2) * hidden * hidden;
    for (std::int64_t row = 0; !linear_before_reset_ && row < hidden; ++row) {
      for (std::int64_t k = 0; k < hidden; ++k)
        dmemory[u(k)] += input[u(2 * hidden + row)] * r_hidden[row * hidden + k];
    }
    for (std::size_t j = 0; j < r.size(); ++j) {
      const double dr = linear_before_reset_ ? input[u(2 * hidden) + j] * memory[j] : dmemory[j] * before[j];
      input[u(hidden) + j] = dr * r[j] * (1 - r[j]);
      next[j] += dmemory[j] * r[j];
    }
  }

  void lstm(std::int64_t t, const std::vector<double>& cell, std::vector<double>& input) {
    const std::int64_t hidden = in_.hidden;
    const std::vector<double> i = kept_at(t, 0), o = kept_at(t, 1), f = kept_at(t, 2), g = kept_at(t, 3),
                              c = kept_at(t, 4);
    const double* p = in_.p.data() + d_ * 3 * hidden;
    double* dp = sums.p.data() + d_ * 3 * hidden;
    for (std::size_t j = 0; j < i.size(); ++j) {
      const double tanh_c = std::tanh(c[j]), output = dh_[j] * tanh_c * o[j] * (1 - o[j]);
      const double dc = dc_[j] + dh_[j] * o[j] * (1 - tanh_c * tanh_c) + output * p[u(hidden) + j];
      const double gates[] = {dc * g[j] * i[j] * (1 - i[j]), output, dc * cell[j] * f[j] * (1 - f[j]),
                              dc * i[j] * (1 - g[j] * g[j])};
      for (std::size_t gate = 0; gate < 4; ++gate) input[gate * u(hidden) + j] = gates[gate];
      dp[j] += gates[0] * cell[j];
      dp[u(hidden) + j] += output * c[j];
      dp[u(2 * hidden) + j] += gates[2] * cell[j];
      dc_[j] = dc * f[j] + gates[0] * p[j] + gates[2] * p[u(2 * hidden) + j];
    }
  }

  const ops::RecurrentPlan& plan_;
  const RecurrentOperands& in_;
  bool linear_before_reset_;
  std::vector<double> y_, kept_, dy_, dlast_h_, dlast_c_;
  std::int64_t d_ = 0, n_ = 0;
  std::vector<double> dh_, dc_;  // of the state after the step
};

}  // namespace

void recurrent_gradient(KernelContext& context) {
  const ops::RecurrentPlan plan = ops::read_recurrent(context);
  const RecurrentOperands in = read_recurrent_operands(context, plan);
  Backward backward(context, plan, in);
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(plan.directions); ++d) {
    for (std::int64_t n = 0; n < in.batch; ++n) {
      context.check_stop();
      backward.run(d, n);
    }
  }
  const Gradients& sums = backward.sums;
  const std::vector<double>* const results[] = {&sums.x, &sums.w, &sums.r, &sums.b, &sums.h, &sums.c, &sums.p};
  for (std::size_t i = 0; i < std::size(results); ++i) {
    if (context.wants_output(i)) write(*results[i], context.output(i));
  }
}

}  // namespace tessera::backends::reference
