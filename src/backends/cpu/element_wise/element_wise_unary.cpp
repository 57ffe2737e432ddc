// y = f(x) for float32, element by element; x and y may be the same memory.
#include "backends/cpu/element_wise/element_wise_unary.h"

#include <cmath>
#include <limits>

#include "backends/cpu/element_wise/trigonometric.h"
#include "backends/cpu/machine/operand_rules.h"
#include "base/assert.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/element_wise_unary.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/math.h"

#ifndef TESSERA_BACKENDS_CPU_ELEMENT_WISE_UNARY
#define TESSERA_BACKENDS_CPU_ELEMENT_WISE_UNARY
namespace tessera::backends::cpu {

enum class Unary {
  abs,
  ceil,
  celu,
  clip,
  elu,
  erf,
  exp,
  floor,
  gelu,
  gelu_tanh,
  hard_sigmoid,
  hard_swish,
  leaky_relu,
  log,
  mish,
  neg,
  reciprocal,
  relu,
  round,
  selu,
  sigmoid,
  sign,
  softplus,
  softsign,
  sqrt,
  swish,
  tanh,
  thresholded_relu,
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

V zero() {
  return hn::Zero(D());
}
V set(float value) {
  return hn::Set(D(), value);
}
V clamp(V x, float low, float high) {
  return math::at_most(D(), math::at_least(D(), x, low), high);
}
// f for x < 0, else g.
V where_negative(V x, V f, V g) {
  return hn::IfThenElse(hn::Lt(x, zero()), f, g);
}

template <Unary kind>
HWY_INLINE V apply(V x, V a, V b) {
  const D d;
  if constexpr (kind == Unary::abs) return hn::Abs(x);
  if constexpr (kind == Unary::ceil) return hn::Ceil(x);
  if constexpr (kind == Unary::floor) return hn::Floor(x);
  if constexpr (kind == Unary::round) return hn::Round(x);
  if constexpr (kind == Unary::neg) return hn::Neg(x);
  if constexpr (kind == Unary::sqrt) return hn::Sqrt(x);
  if constexpr (kind == Unary::reciprocal) return hn::Div(set(1), x);
  if constexpr (kind == Unary::sign) {
    const V magnitude = hn::IfThenElse(hn::Eq(x, zero()), zero(), hn::CopySign(set(1), x));
    return hn::IfThenElse(hn::IsNaN(x), x, magnitude);
  }
  if constexpr (kind == Unary::relu) return hn::IfThenZeroElse(hn::Lt(x, zero()), x);
  if constexpr (kind == Unary::leaky_relu) return where_negative(x, hn::Mul(a, x), x);
  if constexpr (kind == Unary::thresholded_relu) return hn::IfThenElseZero(hn::Gt(x, a), x);
  if constexpr (kind == Unary::clip) {
    const V raised = hn::IfThenElse(hn::Lt(x, a), a, x);
    return hn::IfThenElse(hn::Gt(raised, b), b, raised);
  }
  if constexpr (kind == Unary::hard_sigmoid) return clamp(hn::MulAdd(a, x, b), 0, 1);
  if constexpr (kind == Unary::hard_swish) return hn::Mul(x, clamp(hn::MulAdd(x, set(1.0f / 6), set(0.5f)), 0, 1));
  if constexpr (kind == Unary::softsign) return hn::Div(x, hn::Add(set(1), hn::Abs(x)));
  if constexpr (kind == Unary::exp) return math::exp(d, x);
  if constexpr (kind == Unary::log) return math::log(d, x);
  if constexpr (kind == Unary::erf) return math::erf(d, x);
  if constexpr (kind == Unary::tanh) return math::tanh(d, x);
  if constexpr (kind == Unary::sigmoid) return math::sigmoid(d, x);
  if constexpr (kind == Unary::softplus) return math::softplus(d, x);
  if constexpr (kind == Unary::swish) return hn::Mul(x, math::sigmoid(d, hn::Mul(a, x)));
  if constexpr (kind == Unary::gelu) {
    const V half = hn::Mul(x, set(0.5f));
    return hn::MulAdd(half, math::erf(d, hn::Mul(x, set(0.70710678f))), half);
  }
  if constexpr (kind == Unary::gelu_tanh) {
    // 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x³)
    const V inner = hn::MulAdd(hn::Mul(set(0.044715f), x), hn::Mul(x, x), x);
    const V half = hn::Mul(x, set(0.5f));
    return hn::MulAdd(half, math::tanh(d, hn::Mul(set(0.79788456f), inner)), half);
  }
  if constexpr (kind == Unary::elu) return where_negative(x, hn::Mul(a, math::expm1_of_nonpositive(d, x)), x);
  if constexpr (kind == Unary::selu) {
    return hn::Mul(b, where_negative(x, hn::Mul(a, math::expm1_of_nonpositive(d, x)), x));
  }
  if constexpr (kind == Unary::celu) {
    return where_negative(x, hn::Mul(a, math::expm1_of_nonpositive(d, hn::Div(x, a))), x);
  }
  if constexpr (kind == Unary::mish) {
    // tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), e = exp(x); 1 in float from x = 20 on.
    const V e = math::exp(d, math::at_most(d, x, 20.0f));
    const V n = hn::Mul(e, hn::Add(e, set(2)));
    return hn::Mul(x, hn::Div(n, hn::Add(n, set(2))));
  }
}

template <Unary kind>
void map(const float* x, float* y, std::int64_t count, UnaryParameters parameters) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V a = set(parameters.a), b = set(parameters.b);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(apply<kind>(hn::LoadU(d, x + i), a, b), d, y + i);
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(apply<kind>(hn::MaskedLoad(rest, d, x + i), a, b), rest, d, y + i);
}

template <std::size_t... kinds>
UnaryFunction pick(Unary kind, std::index_sequence<kinds...>) {
  static constexpr UnaryFunction functions[] = {map<static_cast<Unary>(kinds)>...};
  return functions[static_cast<std::size_t>(kind)];
}

}  // namespace

UnaryFunction unary_function(Unary kind) {
  return pick(kind, std::make_index_sequence<static_cast<std::size_t>(Unary::thresholded_relu) + 1>());
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(unary_function);

// Elements per chunk: enough work to be worth waking a thread, few enough to share among many.
constexpr std::int64_t kCheapGrain = 32768, kGrain = 8192, kSlowGrain = 2048;

class UnaryKernel : public Kernel {
 public:
  UnaryKernel(UnaryFunction function, UnaryParameters parameters, std::int64_t grain)
      : function_(function), parameters_(parameters), grain_(grain) {}

  void run(KernelContext& context) const override { map(context, parameters_); }

 protected:
  void map(KernelContext& context, UnaryParameters parameters) const {
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    context.parallel_for(context.input(0).elements(), grain_, [&](std::int64_t begin, std::int64_t end) {
      function_(x + begin, y + begin, end - begin, parameters);
    });
  }

 private:
  UnaryFunction function_;
  UnaryParameters parameters_;
  std::int64_t grain_;
};

// A kernel of Clip: its bounds are inputs, and may be computed by the model.
class ClipKernel final : public UnaryKernel {
 public:
  ClipKernel() : UnaryKernel(HWY_DYNAMIC_DISPATCH(unary_function)(Unary::clip), {}, kCheapGrain) {}

  void run(KernelContext& context) const override {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    map(context, {bound(context, 1, -infinity), bound(context, 2, infinity)});
  }

 private:
  static float bound(const KernelContext& context, std::size_t i, float otherwise) {
    if (!context.has_input(i)) return otherwise;
    const Tensor& tensor = context.input(i);
    require(tensor.elements() == 1, ErrorKind::failed, "Clip wants a scalar bound, got shape {}",
            to_string(tensor.shape()));
    return *tensor.data<float>();
  }
};

KernelPointer make_element_wise_unary(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_clip(const ops::NodeView& view, WeightStore& weights);
KernelPointer make_gelu(const ops::NodeView& view, WeightStore& weights);

// The table of functions of one operand: operators, and activations that kernels of other operators apply
// (row_activation).
struct UnaryLine {
  std::string_view op;
  std::string_view kernel = {};  // name of the operator's entry; empty: only an activation
  Unary kind;
  std::int64_t grain;
  std::string_view a = {}, b = {};  // attributes that hold the parameters
  KernelPointer (*create)(const ops::NodeView&, WeightStore&) = make_element_wise_unary;
  FusedForm form = FusedForm::function;
};

constexpr UnaryLine kUnaryLines[] = {
    {.op = "Abs", .kernel = "cpu_abs", .kind = Unary::abs, .grain = kCheapGrain},
    {.op = "Ceil", .kernel = "cpu_ceil", .kind = Unary::ceil, .grain = kCheapGrain},
    {.op = "Celu", .kernel = "cpu_celu", .kind = Unary::celu, .grain = kGrain, .a = "alpha"},
    {.op = "Clip",
     .kernel = "cpu_clip",
     .kind = Unary::clip,
     .grain = kCheapGrain,
     .create = make_clip,
     .form = FusedForm::bounds},
    {.op = "Elu", .kernel = "cpu_elu", .kind = Unary::elu, .grain = kGrain, .a = "alpha"},
    {.op = "Erf", .kernel = "cpu_erf", .kind = Unary::erf, .grain = kGrain},
    {.op = "Exp", .kernel = "cpu_exp", .kind = Unary::exp, .grain = kGrain},
    {.op = "Floor", .kernel = "cpu_floor", .kind = Unary::floor, .grain = kCheapGrain},
    {.op = "Gelu", .kernel = "cpu_gelu", .kind = Unary::gelu, .grain = kGrain, .create = make_gelu},
    {.op = "GeluTanh", .kind = Unary::gelu_tanh, .grain = kGrain},  // an activation, and Gelu's attribute
    {.op = "HardSigmoid",
     .kernel = "cpu_hard_sigmoid",
     .kind = Unary::hard_sigmoid,
     .grain = kCheapGrain,
     .a = "alpha",
     .b = "beta"},
    {.op = "HardSwish",
     .kernel = "cpu_hard_swish",
     .kind = Unary::hard_swish,
     .grain = kCheapGrain,
     .form = FusedForm::hard_swish},
    {.op = "LeakyRelu", .kernel = "cpu_leaky_relu", .kind = Unary::leaky_relu, .grain = kCheapGrain, .a = "alpha"},
    {.op = "Log", .kernel = "cpu_log", .kind = Unary::log, .grain = kGrain},
    {.op = "Mish", .kernel = "cpu_mish", .kind = Unary::mish, .grain = kGrain},
    {.op = "Neg", .kernel = "cpu_neg", .kind = Unary::neg, .grain = kCheapGrain},
    {.op = "Reciprocal", .kernel = "cpu_reciprocal", .kind = Unary::reciprocal, .grain = kCheapGrain},
    {.op = "Relu", .kernel = "cpu_relu", .kind = Unary::relu, .grain = kCheapGrain, .form = FusedForm::above_zero},
    {.op = "Round", .kernel = "cpu_round", .kind = Unary::round, .grain = kCheapGrain},
    {.op = "Selu", .kernel = "cpu_selu", .kind = Unary::selu, .grain = kGrain, .a = "alpha", .b = "gamma"},
    {.op = "Sigmoid", .kernel = "cpu_sigmoid", .kind = Unary::sigmoid, .grain = kGrain},
    {.op = "Sign", .kernel = "cpu_sign", .kind = Unary::sign, .grain = kCheapGrain},
    {.op = "Softplus", .kernel = "cpu_softplus", .kind = Unary::softplus, .grain = kGrain},
    {.op = "Softsign", .kernel = "cpu_softsign", .kind = Unary::softsign, .grain = kCheapGrain},
    {.op = "Sqrt", .kernel = "cpu_sqrt", .kind = Unary::sqrt, .grain = kCheapGrain},
    {.op = "Swish", .kernel = "cpu_swish", .kind = Unary::swish, .grain = kGrain, .a = "alpha"},
    {.op = "Tanh", .kernel = "cpu_tanh", .kind = Unary::tanh, .grain = kGrain},
    {.op = "ThresholdedRelu",
     .kernel = "cpu_thresholded_relu",
     .kind = Unary::thresholded_relu,
     .grain = kCheapGrain,
     .a = "alpha"},
};

// Applies functions of the C library, which are accurate; most of these operators are too rare to need more speed.
template <float (*function)(float)>
void scalar_map(const float* x, float* y, std::int64_t count, UnaryParameters) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = function(x[i]);
}

struct ScalarLine {
  std::string_view op, kernel;
  UnaryFunction function;
};

constexpr ScalarLine kScalarLines[] = {
    {"Acos", "cpu_acos", acos_row}, {"Acosh", "cpu_acosh", scalar_map<std::acosh>},
    {"Asin", "cpu_asin", asin_row}, {"Asinh", "cpu_asinh", scalar_map<std::asinh>},
    {"Atan", "cpu_atan", atan_row}, {"Atanh", "cpu_atanh", scalar_map<std::atanh>},
    {"Cos", "cpu_cos", cos_row},    {"Cosh", "cpu_cosh", scalar_map<std::cosh>},
    {"Sin", "cpu_sin", sin_row},    {"Sinh", "cpu_sinh", scalar_map<std::sinh>},
    {"Tan", "cpu_tan", tan_row},
};

KernelEntry unary_entry(std::string_view op, std::string_view kernel,
                        KernelPointer (*create)(const ops::NodeView&, WeightStore&)) {
  return {.op = op, .name = kernel, .reject = reject_unless_f32, .create = create, .in_place_inputs = 1};
}

KernelPointer make_clip(const ops::NodeView&, WeightStore&) {
  return std::make_unique<ClipKernel>();
}

KernelPointer make_gelu(const ops::NodeView& view, WeightStore&) {
  const Unary kind = view.text("approximate") == "tanh" ? Unary::gelu_tanh : Unary::gelu;
  return std::make_unique<UnaryKernel>(HWY_DYNAMIC_DISPATCH(unary_function)(kind), UnaryParameters{}, kGrain);
}

KernelPointer make_element_wise_unary(const ops::NodeView& view, WeightStore&) {
  for (const UnaryLine& line : kUnaryLines) {
    if (line.op != view.op().name) continue;
    const UnaryParameters parameters{line.a.empty() ? 0 : view.real(line.a), line.b.empty() ? 0 : view.real(line.b)};
    return std::make_unique<UnaryKernel>(HWY_DYNAMIC_DISPATCH(unary_function)(line.kind), parameters, line.grain);
  }
  for (const ScalarLine& line : kScalarLines) {
    if (line.op == view.op().name) return std::make_unique<UnaryKernel>(line.function, UnaryParameters{}, kSlowGrain);
  }
  TESSERA_ASSERT(false, "an entry of the kernel table is of no line of this file's tables");
}

}  // namespace

RowActivation row_activation(std::string_view name, std::span<const float> values) {
  for (const UnaryLine& line : kUnaryLines) {
    if (line.op != name) continue;
    const UnaryParameters parameters{values.empty() ? 0 : values[0], values.size() < 2 ? 0 : values[1]};
    return {HWY_DYNAMIC_DISPATCH(unary_function)(line.kind), parameters, line.form};
  }
  return {};
}

std::vector<KernelEntry> unary_kernels() {
  std::vector<KernelEntry> entries;
  for (const UnaryLine& line : kUnaryLines) {
    if (!line.kernel.empty()) entries.push_back(unary_entry(line.op, line.kernel, line.create));
  }
  for (const ScalarLine& line : kScalarLines)
    entries.push_back(unary_entry(line.op, line.kernel, make_element_wise_unary));
  return entries;
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
