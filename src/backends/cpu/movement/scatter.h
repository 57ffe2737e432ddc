// Definitions shared by ScatterElements and ScatterND: the operations that combine an update with an element.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/movement/movement.h"
#include "ops/movement/scatter.h"

namespace tessera::backends::cpu {

// Replaces an element of T's width.
struct Replace {
  template <typename T>
  T operator()(T, T update) const {
    return update;
  }
};

// Integers wrap; the result is NaN if either operand is NaN.
template <ops::ScatterReduction reduction>
struct Join {
  template <typename T>
  T operator()(T old, T update) const {
    if constexpr (reduction == ops::ScatterReduction::add || reduction == ops::ScatterReduction::mul) {
      using Carrier =
          typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
      const auto a = static_cast<Carrier>(old), b = static_cast<Carrier>(update);
      return static_cast<T>(reduction == ops::ScatterReduction::add ? a + b : a * b);
    } else {
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(old) || std::isnan(update)) return std::numeric_limits<T>::quiet_NaN();
      }
      if constexpr (reduction == ops::ScatterReduction::max) return old < update ? update : old;
      else return update < old ? update : old;
    }
  }
};

// Calls visit(join, T{}) with the operation of the node on its elements; without a reduction T is an integer of their
// size, 8 to 64 bits.
template <typename Visit>
void with_join(ops::ScatterReduction reduction, DType dtype, Visit visit) {
  using ops::ScatterReduction;
  const auto typed = [&](auto join) {
    switch (dtype) {
      case DType::f32:
        return visit(join, float{});
      case DType::f64:
        return visit(join, double{});
      case DType::i32:
        return visit(join, std::int32_t{});
      default:
        return visit(join, std::int64_t{});
    }
  };
  switch (reduction) {
    case ScatterReduction::add:
      return typed(Join<ScatterReduction::add>{});
    case ScatterReduction::mul:
      return typed(Join<ScatterReduction::mul>{});
    case ScatterReduction::max:
      return typed(Join<ScatterReduction::max>{});
    case ScatterReduction::min:
      return typed(Join<ScatterReduction::min>{});
    case ScatterReduction::none:
      break;
  }
  switch (bits_of(dtype)) {
    case 8:
      return visit(Replace{}, std::uint8_t{});
    case 16:
      return visit(Replace{}, std::uint16_t{});
    case 32:
      return visit(Replace{}, std::uint32_t{});
    default:
      return visit(Replace{}, std::uint64_t{});
  }
}

// Returns why with_join does not support the node, or "".
std::string reject_unless_joined(const ops::NodeView& view);

// Copies the data to the output, with all threads, unless the output is in the data's memory.
void copy_data(KernelContext& context);

// Returns the values of an input, copied to `kept` if the output is written over them.
const void* apart_from_output(KernelContext& context, const Tensor& input, std::vector<std::byte>& kept);

}  // namespace tessera::backends::cpu
