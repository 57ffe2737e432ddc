// z = f(x, y) with broadcasting; z may be the memory of an operand of its own size.
#include "backends/cpu/element_wise/element_wise_binary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/element_wise/kernels.h"
#include "backends/cpu/element_wise/typed_lines.h"
#include "base/assert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/element_wise_binary.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The larger or smaller of two numbers; NaN if either is NaN.
V with_nan(V x, V y, V chosen) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::IsNaN(y), y, chosen));
}

template <Arithmetic kind>
HWY_INLINE V apply(V x, V y) {
  if constexpr (kind == Arithmetic::add) return hn::Add(x, y);
  if constexpr (kind == Arithmetic::sub) return hn::Sub(x, y);
  if constexpr (kind == Arithmetic::mul) return hn::Mul(x, y);
  if constexpr (kind == Arithmetic::div) return hn::Div(x, y);
  if constexpr (kind == Arithmetic::max) return with_nan(x, y, hn::IfThenElse(hn::Lt(x, y), y, x));
  if constexpr (kind == Arithmetic::min) return with_nan(x, y, hn::IfThenElse(hn::Lt(x, y), x, y));
  if constexpr (kind == Arithmetic::p_relu) return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Mul(x, y), x);
}

// Whether 1 / y is exact and a normal number.
bool has_exact_reciprocal(float y) {
  const auto bits = std::bit_cast<std::uint32_t>(y), exponent = bits >> 23 & 0xFF;
  return (bits & 0x7FFFFF) == 0 && exponent >= 1 && exponent <= 253;
}

template <Arithmetic kind, bool x_moves, bool y_moves>
void line(const void* x_data, const void* y_data, void* z_data, std::int64_t count) {
  if constexpr (kind == Arithmetic::div && !y_moves) {
    // Division takes ten times as long as multiplication, or longer.
    if (const float divisor = *static_cast<const float*>(y_data); has_exact_reciprocal(divisor)) {
      const float reciprocal = 1 / divisor;
      return line<Arithmetic::mul, x_moves, false>(x_data, &reciprocal, z_data, count);
    }
  }
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto *x = static_cast<const float*>(x_data), *y = static_cast<const float*>(y_data);
  auto* z = static_cast<float*>(z_data);
  const V x_fixed = hn::Set(d, *x), y_fixed = hn::Set(d, *y);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V a = x_moves ? hn::LoadU(d, x + i) : x_fixed;
    const V b = y_moves ? hn::LoadU(d, y + i) : y_fixed;
    hn::StoreU(apply<kind>(a, b), d, z + i);
  }
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  const V a = x_moves ? hn::MaskedLoad(rest, d, x + i) : x_fixed;
  const V b = y_moves ? hn::MaskedLoad(rest, d, y + i) : y_fixed;
  hn::BlendedStore(apply<kind>(a, b), rest, d, z + i);
}

template <Arithmetic kind>
BinaryLine pick(bool x_moves, bool y_moves) {
  if (x_moves && y_moves) return line<kind, true, true>;
  if (x_moves) return line<kind, true, false>;
  return y_moves ? line<kind, false, true> : line<kind, false, false>;
}

}  // namespace

BinaryLine f32_line(Arithmetic kind, bool x_moves, bool y_moves) {
  switch (kind) {
    case Arithmetic::add:
      return pick<Arithmetic::add>(x_moves, y_moves);
    case Arithmetic::sub:
      return pick<Arithmetic::sub>(x_moves, y_moves);
    case Arithmetic::mul:
      return pick<Arithmetic::mul>(x_moves, y_moves);
    case Arithmetic::div:
      return pick<Arithmetic::div>(x_moves, y_moves);
    case Arithmetic::max:
      return pick<Arithmetic::max>(x_moves, y_moves);
    case Arithmetic::min:
      return pick<Arithmetic::min>(x_moves, y_moves);
    case Arithmetic::p_relu:
      return pick<Arithmetic::p_relu>(x_moves, y_moves);
    default:
      return nullptr;
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(f32_line);

// Elements per chunk.
constexpr std::int64_t kGrain = 32768;
constexpr std::int64_t kShortLine = 1024;  // elements; with shorter lines the cost of calls shows

struct ArithmeticName {
  std::string_view op;
  Arithmetic kind;
};
constexpr ArithmeticName kNames[] = {
    {"Add", Arithmetic::add},
    {"Sub", Arithmetic::sub},
    {"Mul", Arithmetic::mul},
    {"Div", Arithmetic::div},
    {"Mod", Arithmetic::mod},
    {"Max", Arithmetic::max},
    {"Min", Arithmetic::min},
    {"PRelu", Arithmetic::p_relu},
    {"Sum", Arithmetic::add},
    {"BitwiseAnd", Arithmetic::bit_and},
    {"BitwiseOr", Arithmetic::bit_or},
    {"BitwiseXor", Arithmetic::bit_xor},
    {"BitShift", Arithmetic::shift_right},
};

Arithmetic kind_of(std::string_view op) {
  const auto* name = std::ranges::find(kNames, op, &ArithmeticName::op);
  TESSERA_ASSERT(name != std::end(kNames), "the kernel table names an operator that element_wise_binary.cpp lacks");
  return name->kind;
}

Arithmetic kind_of(const ops::NodeView& view) {
  const Arithmetic kind = kind_of(view.op().name);
  if (kind == Arithmetic::shift_right && view.text("direction") == "LEFT") return Arithmetic::shift_left;
  return kind == Arithmetic::mod && view.integer("fmod") != 0 ? Arithmetic::fmod : kind;
}

BinaryLine line_of(Arithmetic kind, DType type, bool x_moves, bool y_moves) {
  const bool is_remainder = kind == Arithmetic::mod || kind == Arithmetic::fmod;
  if (type != DType::f32 || is_remainder) return typed_arithmetic_line(kind, type, x_moves, y_moves);
  return HWY_DYNAMIC_DISPATCH(f32_line)(kind, x_moves, y_moves);
}

// Sum, Max and Min of three or more operands, all of the output's shape: folded into the output one after the other.
class FoldKernel final : public Kernel {
 public:
  FoldKernel(const ops::NodeView& view) : line_(line_of(kind_of(view), view.input(0).dtype, true, true)) {}

  void run(KernelContext& context) const override {
    Tensor& output = context.output(0);
    const std::int64_t element = bits_of(output.dtype()) / 8;
    context.parallel_for(output.elements(), kGrain / 4, [&](std::int64_t begin, std::int64_t end) {
      const auto at = [&](std::size_t i) {
        return static_cast<const std::byte*>(context.input(i).raw()) + begin * element;
      };
      std::byte* z = static_cast<std::byte*>(output.mutable_raw()) + begin * element;
      line_(at(0), at(1), z, end - begin);
      for (std::size_t i = 2; i < context.input_count(); ++i) line_(z, at(i), z, end - begin);
    });
  }

 private:
  BinaryLine line_;
};

}  // namespace

BinaryKernel::BinaryKernel(const ops::NodeView& view, LineChooser choose)
    : broadcast_(view.output(0).shape, {&view.input(0).shape, &view.input(1).shape}),
      line_(choose(view, broadcast_.line_stride(0) != 0, broadcast_.line_stride(1) != 0)),
      input_bytes_(bits_of(view.input(0).dtype) / 8),
      output_bytes_(bits_of(view.output(0).dtype) / 8) {
  if (broadcast_.lines_repeat() && broadcast_.line_length() < kShortLine)
    lines_together_ = kShortLine / broadcast_.line_length();
}

void BinaryKernel::run(KernelContext& context) const {
  const auto* x = static_cast<const std::byte*>(context.input(0).raw());
  const auto* y = static_cast<const std::byte*>(context.input(1).raw());
  auto* z = static_cast<std::byte*>(context.output(0).mutable_raw());
  if (lines_together_ > 1) {
    return broadcast_.walk_together(context, kGrain, lines_together_, std::array{x, y},
                                    std::array{input_bytes_, input_bytes_},
                                    [&](const auto& operands, std::int64_t to, std::int64_t count) {
                                      line_(operands[0], operands[1], z + to * output_bytes_, count);
                                    });
  }
  broadcast_.walk(context, kGrain, [&](const auto& from, std::int64_t to, std::int64_t count) {
    line_(x + from[0] * input_bytes_, y + from[1] * input_bytes_, z + to * output_bytes_, count);
  });
}

BinaryLine f32_arithmetic_line(std::string_view op, bool x_moves, bool y_moves) {
  return line_of(kind_of(op), DType::f32, x_moves, y_moves);
}

std::string reject_arithmetic(const ops::NodeView& view) {
  const DType type = view.input(0).dtype;
  if (type != DType::f32 && !has_typed_lines(type)) return "takes f32, f64 and integers of 8 bits or more";
  if (view.output(0).dtype == DType::undefined) return "wants known shapes";
  if (view.input_count() == 1) return "takes two operands or more";
  for (std::size_t i = 0; view.input_count() > 2 && i < view.input_count(); ++i) {
    if (view.input(i).shape != view.output(0).shape) return "broadcasts two operands, not more";
  }
  return "";
}

std::unique_ptr<Kernel> make_arithmetic(const ops::NodeView& view, WeightStore&) {
  if (view.input_count() > 2) return std::make_unique<FoldKernel>(view);
  return std::make_unique<BinaryKernel>(view, [](const ops::NodeView& node, bool x_moves, bool y_moves) {
    return line_of(kind_of(node), node.input(0).dtype, x_moves, y_moves);
  });
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
