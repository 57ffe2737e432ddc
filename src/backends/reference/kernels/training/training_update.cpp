#include <array>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Calls update(x, gradient, states...), with references to doubles, for every element of every optimised tensor, and
// stores the new x and states. `states`: the number of state tensors per optimised tensor.
template <std::size_t states, typename Update>
void update_tensors(KernelContext& context, Update update) {
  const std::size_t count = (context.input_count() - 2) / (2 + states);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> x = read<double>(context.input(2 + i));
    const std::vector<double> gradient = read<double>(context.input(2 + count + i));
    std::array<std::vector<double>, states> state;
    for (std::size_t s = 0; s < states; ++s) state[s] = read<double>(context.input(2 + (2 + s) * count + i));
    for (std::size_t e = 0; e < x.size(); ++e) {
      if constexpr (states == 1) update(x[e], gradient[e], state[0][e]);
      else update(x[e], gradient[e], state[0][e], state[1][e]);
    }
    if (context.wants_output(i)) write(x, context.output(i));
    for (std::size_t s = 0; s < states; ++s) {
      const std::size_t output = (1 + s) * count + i;
      if (context.wants_output(output)) write(state[s], context.output(output));
    }
  }
}

double rate_of(const KernelContext& context) {
  return read<double>(context.input(0)).at(0);
}
double steps_of(const KernelContext& context) {
  return static_cast<double>(read<std::int64_t>(context.input(1)).at(0));
}

}  // namespace

void adagrad(KernelContext& context) {
  const double rate = rate_of(context) / (1 + steps_of(context) * context.real("decay_factor"));
  const double norm = context.real("norm_coefficient"), epsilon = context.real("epsilon");
  update_tensors<1>(context, [&](double& x, double gradient, double& h) {
    const double g = norm * x + gradient;
    h += g * g;
    x -= rate * g / (std::sqrt(h) + epsilon);
  });
}

void adam(KernelContext& context) {
  const double alpha = context.real("alpha"), beta = context.real("beta"), epsilon = context.real("epsilon");
  const double norm = context.real("norm_coefficient"), post = context.real("norm_coefficient_post");
  const double steps = steps_of(context);
  double rate = rate_of(context);
  if (steps > 0) rate *= std::sqrt(1 - std::pow(beta, steps)) / (1 - std::pow(alpha, steps));
  update_tensors<2>(context, [&](double& x, double gradient, double& v, double& h) {
    const double g = norm * x + gradient;
    v = alpha * v + (1 - alpha) * g;
    h = beta * h + (1 - beta) * g * g;
    x = (1 - post) * (x - rate * v / (std::sqrt(h) + epsilon));
  });
}

void momentum(KernelContext& context) {
  const double alpha = context.real("alpha"), norm = context.real("norm_coefficient"), rate = rate_of(context);
  const double beta = steps_of(context) > 0 ? context.real("beta") : 1;
  const bool nesterov = context.text("mode") == "nesterov";
  update_tensors<1>(context, [&](double& x, double gradient, double& v) {
    const double g = norm * x + gradient;
    v = alpha * v + beta * g;
    x -= rate * (nesterov ? g + alpha * v : v);
  });
}

}  // namespace tessera::backends::reference
