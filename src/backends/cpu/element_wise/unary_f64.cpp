// y = f(x) for f64 functions of the C library; x and y may be the same memory.
#include <algorithm>
#include <cmath>

#include "backends/cpu/element_wise/typed_unary.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kDoublesAChunk = 2048;

// A function of doubles from the C library, with up to two attributes.
struct DoubleFunction {
  std::string_view op, kernel;
  double (*function)(double x, double a, double b);
  std::string_view a = {}, b = {};
};

double sigmoid_of(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
// log(1 + exp(x)) without overflow.
double softplus_of(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

template <double (*function)(double)>
double plain_function(double x, double, double) {
  return function(x);
}

constexpr DoubleFunction kDoubleFunctions[] = {
    {"Acos", "cpu_acos_f64", plain_function<std::acos>},
    {"Acosh", "cpu_acosh_f64", plain_function<std::acosh>},
    {"Asin", "cpu_asin_f64", plain_function<std::asin>},
    {"Asinh", "cpu_asinh_f64", plain_function<std::asinh>},
    {"Atan", "cpu_atan_f64", plain_function<std::atan>},
    {"Atanh", "cpu_atanh_f64", plain_function<std::atanh>},
    {"Cos", "cpu_cos_f64", plain_function<std::cos>},
    {"Cosh", "cpu_cosh_f64", plain_function<std::cosh>},
    {"Elu", "cpu_elu_f64", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, "alpha"},
    {"Erf", "cpu_erf_f64", plain_function<std::erf>},
    {"Exp", "cpu_exp_f64", plain_function<std::exp>},
    {"HardSigmoid", "cpu_hard_sigmoid_f64",
     [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, "alpha", "beta"},
    {"HardSwish", "cpu_hard_swish_f64",
     [](double x, double, double) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); }},
    {"LeakyRelu", "cpu_leaky_relu_f64", [](double x, double a, double) { return x < 0 ? a * x : x; }, "alpha"},
    {"Log", "cpu_log_f64", plain_function<std::log>},
    {"Mish", "cpu_mish_f64", [](double x, double, double) { return x * std::tanh(softplus_of(x)); }},
    {"Selu", "cpu_selu_f64", [](double x, double a, double b) { return b * (x <= 0 ? a * std::expm1(x) : x); }, "alpha",
     "gamma"},
    {"Sigmoid", "cpu_sigmoid_f64", plain_function<sigmoid_of>},
    {"Sin", "cpu_sin_f64", plain_function<std::sin>},
    {"Sinh", "cpu_sinh_f64", plain_function<std::sinh>},
    {"Softplus", "cpu_softplus_f64", plain_function<softplus_of>},
    {"Softsign", "cpu_softsign_f64", [](double x, double, double) { return x / (1.0 + std::fabs(x)); }},
    {"Swish", "cpu_swish_f64", [](double x, double a, double) { return x * sigmoid_of(a * x); }, "alpha"},
    {"Tan", "cpu_tan_f64", plain_function<std::tan>},
    {"Tanh", "cpu_tanh_f64", plain_function<std::tanh>},
    {"ThresholdedRelu", "cpu_thresholded_relu_f64", [](double x, double a, double) { return x > a ? x : 0.0; },
     "alpha"},
};

class DoubleFunctionKernel final : public Kernel {
 public:
  DoubleFunctionKernel(const DoubleFunction& line, const ops::NodeView& view)
      : function_(line.function),
        a_(line.a.empty() ? 0 : static_cast<double>(view.real(line.a))),
        b_(line.b.empty() ? 0 : static_cast<double>(view.real(line.b))) {}

  void run(KernelContext& context) const override {
    const double* x = context.input(0).data<double>();
    double* y = context.output(0).mutable_data<double>();
    context.parallel_for(context.input(0).elements(), kDoublesAChunk, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = function_(x[i], a_, b_);
    });
  }

 private:
  double (*function_)(double x, double a, double b);
  double a_, b_;
};

KernelPointer make_double_function(const ops::NodeView& view, WeightStore&) {
  const auto* line = std::ranges::find(kDoubleFunctions, view.op().name, &DoubleFunction::op);
  if (line == std::end(kDoubleFunctions)) return nullptr;
  return std::make_unique<DoubleFunctionKernel>(*line, view);
}

std::string reject_unless_doubles(const ops::NodeView& view) {
  return view.input(0).dtype == DType::f64 ? "" : "takes f64";
}

}  // namespace

std::vector<KernelEntry> double_unary_kernels() {
  std::vector<KernelEntry> entries;
  for (const DoubleFunction& line : kDoubleFunctions) {
    entries.push_back({.op = line.op,
                       .name = line.kernel,
                       .reject = reject_unless_doubles,
                       .create = make_double_function,
                       .in_place_inputs = 1});
  }
  return entries;
}

}  // namespace tessera::backends::cpu
