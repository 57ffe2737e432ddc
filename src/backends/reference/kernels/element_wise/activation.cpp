#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/reference/map.h"

namespace tessera::backends::reference {
namespace {

double sigmoid_of(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

// log(1 + exp(x)) without overflow.
double softplus_of(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

}  // namespace

void relu(KernelContext& context) {
  map_elements(context, [](auto x) { return x < 0 ? decltype(x){0} : x; });
}

void sigmoid(KernelContext& context) {
  map_as_double(context, sigmoid_of);
}

void tanh(KernelContext& context) {
  map_as_double(context, [](double x) { return std::tanh(x); });
}

void celu(KernelContext& context) {
  const double alpha = context.real("alpha");
  map_as_double(context, [=](double x) { return x < 0 ? alpha * std::expm1(x / alpha) : x; });
}

void elu(KernelContext& context) {
  const double alpha = context.real("alpha");
  map_as_double(context, [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

void gelu(KernelContext& context) {
  if (context.text("approximate") == "tanh") {
    const double scale = std::sqrt(2.0 / M_PI);
    map_as_double(context, [=](double x) { return 0.5 * x * (1.0 + std::tanh(scale * (x + 0.044715 * x * x * x))); });
  } else {
    map_as_double(context, [](double x) { return 0.5 * x * (1.0 + std::erf(x * M_SQRT1_2)); });
  }
}

void hard_sigmoid(KernelContext& context) {
  const double alpha = context.real("alpha"), beta = context.real("beta");
  map_as_double(context, [=](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); });
}

void hard_swish(KernelContext& context) {
  map_as_double(context, [](double x) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); });
}

void leaky_relu(KernelContext& context) {
  const double alpha = context.real("alpha");
  map_as_double(context, [=](double x) { return x < 0 ? alpha * x : x; });
}

void mish(KernelContext& context) {
  map_as_double(context, [](double x) { return x * std::tanh(softplus_of(x)); });
}

void selu(KernelContext& context) {
  const double alpha = context.real("alpha"), gamma = context.real("gamma");
  map_as_double(context, [=](double x) { return gamma * (x <= 0 ? alpha * std::expm1(x) : x); });
}

void shrink(KernelContext& context) {
  const double bias = context.real("bias"), threshold = context.real("lambd");
  map_as_double(context, [=](double x) { return x < -threshold ? x + bias : x > threshold ? x - bias : 0.0; });
}

void softplus(KernelContext& context) {
  map_as_double(context, softplus_of);
}

void softsign(KernelContext& context) {
  map_as_double(context, [](double x) { return x / (1.0 + std::fabs(x)); });
}

void swish(KernelContext& context) {
  const double alpha = context.real("alpha");
  map_as_double(context, [=](double x) { return x * sigmoid_of(alpha * x); });
}

void thresholded_relu(KernelContext& context) {
  const double alpha = context.real("alpha");
  map_as_double(context, [=](double x) { return x > alpha ? x : 0.0; });
}

}  // namespace tessera::backends::reference
