// What ScatterElements and ScatterND have in common: how an update meets what is there.
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

// Integers wrap; NaN wins over every number.
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
// width, of 8 to 64 bits.
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

// Why with_join does not take the node, or "".
std::string reject_unless_joined(const ops::NodeView& view);

// Makes the output a copy of the data, on all threads, unless it is written over the data.
void copy_data(KernelContext& context);

// The values of an input, copied to `kept` where the output is written over them.
const void* apart_from_output(KernelContext& context, const Tensor& input, std::vector<std::byte>& kept);

}  // namespace tessera::backends::cpu
