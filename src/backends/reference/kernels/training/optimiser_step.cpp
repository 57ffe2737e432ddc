#include "ops/training/optimiser_step.h"

#include <algorithm>
#include <cmath>

#include "backends/host/numeric.h"
#include "backends/reference/kernels/training/kernels.h"
#include "ops/training/row_optimiser_step.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using Numbers = std::vector<double>;

// The coefficients that all parameters of a step share.
struct StepNumbers {
  std::string algorithm;
  double rate, count, gradient_scale, momentum, beta1, beta2, epsilon, rate_decay, trust;
  bool nesterov;
};

double norm_of(const Numbers& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number * number;
  return std::sqrt(sum);
}

void sgd(const StepNumbers& step, double decay, Numbers& p, Numbers& g, Numbers* b) {
  for (std::size_t i = 0; i < p.size(); ++i) {
    g[i] += decay * p[i];
    double change = g[i];
    if (b != nullptr) {
      (*b)[i] = step.momentum * (*b)[i] + g[i];
      change = step.nesterov ? g[i] + step.momentum * (*b)[i] : (*b)[i];
    }
    p[i] -= step.rate * change;
  }
}

// m̂ / (√v̂ + ε) of each element, after updating both moments with the gradient.
Numbers adam_direction(const StepNumbers& step, const Numbers& g, Numbers& m, Numbers& v) {
  const double first = 1 - std::pow(step.beta1, step.count), second = 1 - std::pow(step.beta2, step.count);
  Numbers direction(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    m[i] = step.beta1 * m[i] + (1 - step.beta1) * g[i];
    v[i] = step.beta2 * v[i] + (1 - step.beta2) * g[i] * g[i];
    direction[i] = m[i] / first / (std::sqrt(v[i] / second) + step.epsilon);
  }
  return direction;
}

void adam_step(const StepNumbers& step, double decay, Numbers& p, Numbers& g, Numbers& m, Numbers& v) {
  const bool decoupled = step.algorithm == "adamw";
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (decoupled) p[i] -= step.rate * decay * p[i];
    else g[i] += decay * p[i];
  }
  const Numbers direction = adam_direction(step, g, m, v);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] -= step.rate * direction[i];
}

void lamb(const StepNumbers& step, double decay, Numbers& p, Numbers& g, Numbers& m, Numbers& v) {
  Numbers u = adam_direction(step, g, m, v);
  for (std::size_t i = 0; i < p.size(); ++i) u[i] += decay * p[i];
  const double size = norm_of(p), change = norm_of(u);
  const double rate = size > 0 && change > 0 ? step.rate * size / change : step.rate;
  for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * u[i];
}

void adagrad_step(const StepNumbers& step, double decay, Numbers& p, Numbers& g, Numbers& h) {
  const double rate = step.rate / (1 + (step.count - 1) * step.rate_decay);
  for (std::size_t i = 0; i < p.size(); ++i) {
    g[i] += decay * p[i];
    h[i] += g[i] * g[i];
    p[i] -= rate * g[i] / (std::sqrt(h[i]) + step.epsilon);
  }
}

void lars(const StepNumbers& step, double decay, Numbers& p, Numbers& g, Numbers& b) {
  const double size = norm_of(p), slope = norm_of(g);
  const double local = size > 0 && slope > 0 ? step.trust * size / (slope + decay * size + step.epsilon) : 1;
  for (std::size_t i = 0; i < p.size(); ++i) {
    b[i] = step.momentum * b[i] + step.rate * local * (g[i] + decay * p[i]);
    p[i] -= b[i];
  }
}

void update(const StepNumbers& step, double decay, Numbers& p, Numbers& g, std::vector<Numbers>& states) {
  if (step.algorithm == "sgd") sgd(step, decay, p, g, states.empty() ? nullptr : &states[0]);
  else if (step.algorithm == "adagrad") adagrad_step(step, decay, p, g, states[0]);
  else if (step.algorithm == "lars") lars(step, decay, p, g, states[0]);
  else if (step.algorithm == "lamb") lamb(step, decay, p, g, states[0], states[1]);
  else adam_step(step, decay, p, g, states[0], states[1]);
}

StepNumbers numbers_of(KernelContext& context) {
  const auto attribute = [&](std::string_view name) { return ops::decimal(context.real(name)); };
  const auto scalar = [&](std::size_t input) { return read<double>(context.input(input)).at(0); };
  return {context.text("algorithm"),
          scalar(0),
          scalar(1),
          scalar(2),
          attribute("momentum"),
          attribute("beta1"),
          attribute("beta2"),
          attribute("epsilon"),
          attribute("rate_decay"),
          attribute("trust"),
          context.integer("nesterov") != 0};
}

bool applies(KernelContext& context) {
  return read<double>(context.input(3)).at(0) != 0;
}

}  // namespace

void optimiser_step(KernelContext& context) {
  const StepNumbers step = numbers_of(context);
  const bool apply = applies(context);
  const std::size_t states = ops::optimiser_states(context), first = ops::kOptimiserScalars;
  const std::size_t count = (context.input_count() - first) / (2 + states);
  for (std::size_t i = 0; i < count; ++i) {
    Numbers p = read<double>(context.input(first + i)), g = read<double>(context.input(first + count + i));
    std::vector<Numbers> state;
    for (std::size_t s = 0; s < states; ++s) state.push_back(read<double>(context.input(first + (2 + s) * count + i)));
    if (apply) {
      for (double& number : g) number *= step.gradient_scale;
      const double decay = context.has_attribute("weight_decays") ? ops::decimal(context.reals("weight_decays")[i]) : 0;
      update(step, decay, p, g, state);
    }
    if (context.wants_output(i)) write(p, context.output(i));
    for (std::size_t s = 0; s < states; ++s) {
      if (context.wants_output((1 + s) * count + i)) write(state[s], context.output((1 + s) * count + i));
    }
  }
}

// Updates a table row by row.
void row_optimiser_step(KernelContext& context) {
  namespace input = ops::row_step_input;
  const StepNumbers step = numbers_of(context);
  const std::size_t states = ops::optimiser_states(context);
  const std::int64_t rows = context.input(input::parameter).shape()[0];
  Numbers p = read<double>(context.input(input::parameter));
  std::vector<Numbers> state;
  for (std::size_t s = 0; s < states; ++s) state.push_back(read<double>(context.input(input::first_state + s)));
  if (applies(context) && rows > 0) {
    const std::size_t size = p.size() / static_cast<std::size_t>(rows);
    const Numbers sums = read<double>(context.input(input::sums));
    const std::vector<std::int64_t> places = read<std::int64_t>(context.input(input::places));
    const bool lazy = context.integer("lazy") != 0;
    const double decay = ops::decimal(context.real("weight_decay"));
    const auto part = [&](const Numbers& of, std::size_t row) {
      return Numbers(of.begin() + static_cast<std::ptrdiff_t>(row * size),
                     of.begin() + static_cast<std::ptrdiff_t>((row + 1) * size));
    };
    const auto put = [&](const Numbers& from, Numbers& to, std::size_t row) {
      std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(row * size));
    };
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto found = std::lower_bound(places.begin(), places.end(), row);
      const bool has_gradient = found != places.end() && *found == row;
      if (lazy && !has_gradient) continue;
      Numbers g = has_gradient ? part(sums, static_cast<std::size_t>(found - places.begin())) : Numbers(size);
      for (double& number : g) number *= step.gradient_scale;
      const auto at = static_cast<std::size_t>(row);
      Numbers of_row = part(p, at);
      std::vector<Numbers> state_of_row;
      for (const Numbers& each : state) state_of_row.push_back(part(each, at));
      update(step, decay, of_row, g, state_of_row);
      put(of_row, p, at);
      for (std::size_t s = 0; s < states; ++s) put(state_of_row[s], state[s], at);
    }
  }
  write(p, context.output(0));
  for (std::size_t s = 0; s < states; ++s) write(state[s], context.output(1 + s));
}

}  // namespace tessera::backends::reference
