// y = f(x) for bools, integers and f64, and tests of floats for NaN and infinity; x and y may be the same memory if
// their elements have the same size.
#include "backends/cpu/element_wise/typed_unary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/element_wise/independent_elements.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/typed_unary.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_TYPED_UNARY
#define TESSERA_BACKENDS_CPU_TYPED_UNARY
namespace tessera::backends::cpu {

enum class TypedUnary {
  abs,
  neg,
  sign,
  relu,
  bitwise_not,
  logical_not,
  clip,
  is_nan,
  is_positive_inf,
  is_negative_inf,
  is_inf,
  ceil,
  floor,
  round,
  sqrt,
  reciprocal
};

// `low` and `high`: the bounds of Clip, in the elements' type; otherwise unused.
using TypedUnaryLine = void (*)(const void* x, void* y, std::int64_t count, const void* low, const void* high);

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// 0 - x, which wraps for the lowest integer.
template <typename T>
HWY_INLINE T opposite(T x) {
  if constexpr (std::is_floating_point_v<T>) return -x;
  else return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
}

template <TypedUnary kind, typename T>
HWY_INLINE auto apply_typed(T x, T low, T high) {
  if constexpr (kind == TypedUnary::neg) return opposite(x);
  if constexpr (kind == TypedUnary::abs) {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    else if constexpr (std::is_unsigned_v<T>) return x;
    else return x < 0 ? opposite(x) : x;
  }
  if constexpr (kind == TypedUnary::sign) {
    if constexpr (std::is_floating_point_v<T>) return x > 0 ? T{1} : x < 0 ? T{-1} : x;
    else return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
  }
  if constexpr (kind == TypedUnary::relu) return x < 0 ? T{0} : x;
  if constexpr (kind == TypedUnary::bitwise_not) return static_cast<T>(~x);
  if constexpr (kind == TypedUnary::logical_not) return static_cast<T>(x == 0 ? 1 : 0);
  if constexpr (kind == TypedUnary::clip) {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if constexpr (kind == TypedUnary::is_nan) return static_cast<std::uint8_t>(x != x ? 1 : 0);
  if constexpr (kind == TypedUnary::is_inf) return static_cast<std::uint8_t>(std::fabs(x) == infinity ? 1 : 0);
  if constexpr (kind == TypedUnary::is_positive_inf) return static_cast<std::uint8_t>(x == infinity ? 1 : 0);
  if constexpr (kind == TypedUnary::is_negative_inf) return static_cast<std::uint8_t>(x == -infinity ? 1 : 0);
}

template <TypedUnary kind, typename T>
void typed_unary_line(const void* x_data, void* y_data, std::int64_t count, const void* low_data,
                      const void* high_data) {
  using Result = decltype(apply_typed<kind>(T{}, T{}, T{}));
  const auto* x = static_cast<const T*>(x_data);
  auto* y = static_cast<Result*>(y_data);
  const T low = low_data == nullptr ? T{} : *static_cast<const T*>(low_data);
  const T high = high_data == nullptr ? T{} : *static_cast<const T*>(high_data);
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    TESSERA_INDEPENDENT_ELEMENTS
    for (std::int64_t k = 0; k < kTogether; ++k) y[i + k] = apply_typed<kind>(x[i + k], low, high);
  }
  for (; i < count; ++i) y[i] = apply_typed<kind>(x[i], low, high);
}

template <TypedUnary kind, class D, class V>
HWY_INLINE V apply_to_doubles(D d, V x) {
  if constexpr (kind == TypedUnary::ceil) return hn::Ceil(x);
  if constexpr (kind == TypedUnary::floor) return hn::Floor(x);
  if constexpr (kind == TypedUnary::round) return hn::Round(x);
  if constexpr (kind == TypedUnary::sqrt) return hn::Sqrt(x);
  if constexpr (kind == TypedUnary::reciprocal) return hn::Div(hn::Set(d, 1.0), x);
}

template <TypedUnary kind>
void double_line(const void* x_data, void* y_data, std::int64_t count, const void*, const void*) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* x = static_cast<const double*>(x_data);
  auto* y = static_cast<double*>(y_data);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(apply_to_doubles<kind>(d, hn::LoadU(d, x + i)), d, y + i);
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(apply_to_doubles<kind>(d, hn::MaskedLoad(rest, d, x + i)), rest, d, y + i);
}

template <TypedUnary kind>
TypedUnaryLine for_unsigned(DType type) {
  switch (bits_of(type)) {
    case 8:
      return typed_unary_line<kind, std::uint8_t>;
    case 16:
      return typed_unary_line<kind, std::uint16_t>;
    case 32:
      return typed_unary_line<kind, std::uint32_t>;
    default:
      return typed_unary_line<kind, std::uint64_t>;
  }
}

template <TypedUnary kind>
TypedUnaryLine for_number(DType type) {
  switch (type) {
    case DType::f64:
      return typed_unary_line<kind, double>;
    case DType::i8:
      return typed_unary_line<kind, std::int8_t>;
    case DType::i16:
      return typed_unary_line<kind, std::int16_t>;
    case DType::i32:
      return typed_unary_line<kind, std::int32_t>;
    case DType::i64:
      return typed_unary_line<kind, std::int64_t>;
    default:
      return for_unsigned<kind>(type);
  }
}

template <TypedUnary kind>
TypedUnaryLine for_float(DType type) {
  return type == DType::f32 ? typed_unary_line<kind, float> : typed_unary_line<kind, double>;
}

}  // namespace

TypedUnaryLine typed_unary_line_of(TypedUnary kind, DType type) {
  switch (kind) {
    case TypedUnary::abs:
      return for_number<TypedUnary::abs>(type);
    case TypedUnary::neg:
      return for_number<TypedUnary::neg>(type);
    case TypedUnary::sign:
      return for_number<TypedUnary::sign>(type);
    case TypedUnary::relu:
      return for_number<TypedUnary::relu>(type);
    case TypedUnary::clip:
      return for_number<TypedUnary::clip>(type);
    case TypedUnary::bitwise_not:
      return for_unsigned<TypedUnary::bitwise_not>(type);
    case TypedUnary::logical_not:
      return typed_unary_line<TypedUnary::logical_not, std::uint8_t>;
    case TypedUnary::is_nan:
      return for_float<TypedUnary::is_nan>(type);
    case TypedUnary::is_inf:
      return for_float<TypedUnary::is_inf>(type);
    case TypedUnary::is_positive_inf:
      return for_float<TypedUnary::is_positive_inf>(type);
    case TypedUnary::is_negative_inf:
      return for_float<TypedUnary::is_negative_inf>(type);
    case TypedUnary::ceil:
      return double_line<TypedUnary::ceil>;
    case TypedUnary::floor:
      return double_line<TypedUnary::floor>;
    case TypedUnary::round:
      return double_line<TypedUnary::round>;
    case TypedUnary::sqrt:
      return double_line<TypedUnary::sqrt>;
    case TypedUnary::reciprocal:
      return double_line<TypedUnary::reciprocal>;
  }
  return nullptr;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(typed_unary_line_of);

// Elements per chunk.
constexpr std::int64_t kGrain = 32768;

struct TypedUnaryName {
  std::string_view op, kernel;
  TypedUnary kind;
};

// Operators on integers and f64.
constexpr TypedUnaryName kOfNumbers[] = {
    {"Abs", "cpu_typed_abs", TypedUnary::abs},    {"Clip", "cpu_typed_clip", TypedUnary::clip},
    {"Neg", "cpu_typed_neg", TypedUnary::neg},    {"Relu", "cpu_typed_relu", TypedUnary::relu},
    {"Sign", "cpu_typed_sign", TypedUnary::sign},
};

// Operators on f64.
constexpr TypedUnaryName kOfDoubles[] = {
    {"Ceil", "cpu_ceil_f64", TypedUnary::ceil},    {"Floor", "cpu_floor_f64", TypedUnary::floor},
    {"Round", "cpu_round_f64", TypedUnary::round}, {"Reciprocal", "cpu_reciprocal_f64", TypedUnary::reciprocal},
    {"Sqrt", "cpu_sqrt_f64", TypedUnary::sqrt},
};

class TypedUnaryKernel final : public Kernel {
 public:
  TypedUnaryKernel(TypedUnary kind, const ops::NodeView& view)
      : line_(HWY_DYNAMIC_DISPATCH(typed_unary_line_of)(kind, view.input(0).dtype)),
        input_bytes_(bits_of(view.input(0).dtype) / 8),
        output_bytes_(bits_of(view.output(0).dtype) / 8) {
    if (kind == TypedUnary::clip) set_extremes(view.input(0).dtype);
  }

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const std::byte*>(context.input(0).raw());
    auto* y = static_cast<std::byte*>(context.output(0).mutable_raw());
    const void *low = bound(context, 1, lowest_), *high = bound(context, 2, highest_);
    context.parallel_for(context.input(0).elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      line_(x + begin * input_bytes_, y + begin * output_bytes_, end - begin, low, high);
    });
  }

 private:
  template <typename T>
  void set_extremes_of() {
    using Limits = std::numeric_limits<T>;
    const T low = Limits::has_infinity ? -Limits::infinity() : Limits::lowest(),
            high = Limits::has_infinity ? Limits::infinity() : Limits::max();
    std::memcpy(lowest_, &low, sizeof(T));
    std::memcpy(highest_, &high, sizeof(T));
  }

  void set_extremes(DType type) {
    switch (type) {
      case DType::f64:
        return set_extremes_of<double>();
      case DType::i8:
        return set_extremes_of<std::int8_t>();
      case DType::i16:
        return set_extremes_of<std::int16_t>();
      case DType::i32:
        return set_extremes_of<std::int32_t>();
      case DType::i64:
        return set_extremes_of<std::int64_t>();
      case DType::u8:
        return set_extremes_of<std::uint8_t>();
      case DType::u16:
        return set_extremes_of<std::uint16_t>();
      case DType::u32:
        return set_extremes_of<std::uint32_t>();
      default:
        return set_extremes_of<std::uint64_t>();
    }
  }

  static const void* bound(const KernelContext& context, std::size_t i, const std::byte* otherwise) {
    if (i >= context.input_count() || !context.has_input(i)) return otherwise;
    const Tensor& tensor = context.input(i);
    require(tensor.elements() == 1, ErrorKind::failed, "Clip wants a scalar bound, got shape {}",
            to_string(tensor.shape()));
    return tensor.raw();
  }

  TypedUnaryLine line_;
  std::int64_t input_bytes_, output_bytes_;
  alignas(8) std::byte lowest_[8] = {}, highest_[8] = {};
};

bool is_typed_number(DType type) {
  return type == DType::f64 || ((is_signed_integer(type) || is_unsigned_integer(type)) && bits_of(type) >= 8);
}

std::string reject_typed_unary(const ops::NodeView& view) {
  return is_typed_number(view.input(0).dtype) ? "" : "takes f64 and integers of 8 bits or more";
}

std::string reject_unless_double(const ops::NodeView& view) {
  return view.input(0).dtype == DType::f64 ? "" : "takes f64";
}

std::string reject_float_test(const ops::NodeView& view) {
  const DType type = view.input(0).dtype;
  return type == DType::f32 || type == DType::f64 ? "" : "takes f32 and f64";
}

KernelPointer make_typed_unary(const ops::NodeView& view, WeightStore&) {
  const auto is_named = [&](const TypedUnaryName& name) { return name.op == view.op().name; };
  if (const auto* name = std::ranges::find_if(kOfNumbers, is_named); name != std::end(kOfNumbers))
    return std::make_unique<TypedUnaryKernel>(name->kind, view);
  const auto* name = std::ranges::find_if(kOfDoubles, is_named);
  if (name == std::end(kOfDoubles)) return nullptr;
  return std::make_unique<TypedUnaryKernel>(name->kind, view);
}

KernelPointer make_bitwise_not(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TypedUnaryKernel>(TypedUnary::bitwise_not, view);
}

KernelPointer make_logical_not(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TypedUnaryKernel>(TypedUnary::logical_not, view);
}

KernelPointer make_is_nan(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TypedUnaryKernel>(TypedUnary::is_nan, view);
}

std::string reject_is_inf(const ops::NodeView& view) {
  if (view.integer("detect_negative") == 0 && view.integer("detect_positive") == 0) return "looks for some infinity";
  return reject_float_test(view);
}

KernelPointer make_is_inf(const ops::NodeView& view, WeightStore&) {
  const TypedUnary kind = view.integer("detect_negative") == 0   ? TypedUnary::is_positive_inf
                          : view.integer("detect_positive") == 0 ? TypedUnary::is_negative_inf
                                                                 : TypedUnary::is_inf;
  return std::make_unique<TypedUnaryKernel>(kind, view);
}

}  // namespace

std::vector<KernelEntry> typed_unary_kernels() {
  std::vector<KernelEntry> entries{
      {.op = "Not", .name = "cpu_not", .create = make_logical_not, .in_place_inputs = 1},
      {.op = "IsNaN", .name = "cpu_is_nan", .reject = reject_float_test, .create = make_is_nan},
      {.op = "IsInf", .name = "cpu_is_inf", .reject = reject_is_inf, .create = make_is_inf},
      {.op = "BitwiseNot",
       .name = "cpu_bitwise_not",
       .reject = reject_typed_unary,
       .create = make_bitwise_not,
       .in_place_inputs = 1},
  };
  for (const TypedUnaryName& name : kOfNumbers) {
    entries.push_back({.op = name.op,
                       .name = name.kernel,
                       .reject = reject_typed_unary,
                       .create = make_typed_unary,
                       .in_place_inputs = 1});
  }
  for (const TypedUnaryName& name : kOfDoubles) {
    entries.push_back({.op = name.op,
                       .name = name.kernel,
                       .reject = reject_unless_double,
                       .create = make_typed_unary,
                       .in_place_inputs = 1});
  }
  return entries;
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
