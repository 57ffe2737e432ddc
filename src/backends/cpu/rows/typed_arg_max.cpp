// ArgMax and ArgMin of integers and f64, and of f32 along other axes than the last, by loops that the compiler
// vectorises.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/element_wise/independent_elements.h"
#include "backends/cpu/rows/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/typed_arg_max.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_TYPED_ARG_MAX
#define TESSERA_BACKENDS_CPU_TYPED_ARG_MAX
namespace tessera::backends::cpu {

// Columns searched together.
inline constexpr std::int64_t kColumnsSearched = 128;

struct ArgMaxFunctions {
  // The best position of a contiguous line.
  std::int64_t (*row)(const void* x, std::int64_t count) = nullptr;
  // The best positions of at most kColumnsSearched neighbouring lines of `length` elements, `stride` apart.
  void (*columns)(const void* x, std::int64_t length, std::int64_t stride, std::int64_t count,
                  std::int64_t* y) = nullptr;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

// Whether x replaces the best value so far; of equal values the first wins, or the last if `last`. NaN is ignored,
// except at the front, where it stays.
template <bool largest, bool last, typename T>
HWY_INLINE bool wins(T x, T best) {
  if constexpr (last) return largest ? x >= best : x <= best;
  else return largest ? x > best : x < best;
}

template <bool largest, typename T>
HWY_INLINE T best_of(T x, T best) {
  return (largest ? x > best : x < best) ? x : best;
}

template <bool largest, bool last, typename T>
std::int64_t search_row(const void* data, std::int64_t count) {
  constexpr std::int64_t lanes = 128 / sizeof(T);
  const auto* x = static_cast<const T*>(data);
  T best = x[0];
  std::int64_t i = 0;
  if (count >= 2 * lanes) {
    alignas(64) T values[lanes];
    std::fill_n(values, lanes, best);
    for (; i + lanes <= count; i += lanes) {
      TESSERA_INDEPENDENT_ELEMENTS
      for (std::int64_t k = 0; k < lanes; ++k) values[k] = best_of<largest>(x[i + k], values[k]);
    }
    for (const T value : values) best = best_of<largest>(value, best);
  }
  for (; i < count; ++i) best = best_of<largest>(x[i], best);
  if constexpr (last) {
    for (std::int64_t k = count; k-- > 0;) {
      if (x[k] == best) return k;
    }
    return 0;  // NaN in front
  }
  i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    std::uint8_t found = 0;
    for (std::int64_t k = 0; k < kTogether; ++k) found |= x[i + k] == best ? 1 : 0;
    if (found != 0) break;
  }
  for (; i < count; ++i) {
    if (x[i] == best) return i;
  }
  return 0;
}

template <bool largest, bool last, typename T>
void search_columns(const void* data, std::int64_t length, std::int64_t stride, std::int64_t count, std::int64_t* y) {
  // Positions have the elements' size, so that both use the same lanes.
  using Position = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  alignas(64) T best[kColumnsSearched];
  alignas(64) Position at[kColumnsSearched] = {};
  const auto* x = static_cast<const T*>(data);
  std::copy_n(x, count, best);
  for (std::int64_t row = 1; row < length; ++row) {
    x += stride;
    const auto position = static_cast<Position>(row);
    const auto take = [&](std::int64_t k) HWY_ATTR {
      const bool better = wins<largest, last>(x[k], best[k]);
      best[k] = better ? x[k] : best[k];
      at[k] = better ? position : at[k];
    };
    if (count == kColumnsSearched) {
      TESSERA_INDEPENDENT_ELEMENTS
      for (std::int64_t k = 0; k < kColumnsSearched; ++k) take(k);
    } else {
      for (std::int64_t k = 0; k < count; ++k) take(k);
    }
  }
  std::copy_n(at, count, y);
}

template <bool largest, bool last, typename T>
ArgMaxFunctions arg_functions() {
  return {search_row<largest, last, T>, search_columns<largest, last, T>};
}

template <typename T>
ArgMaxFunctions arg_functions_of(bool largest, bool last) {
  if (largest) return last ? arg_functions<true, true, T>() : arg_functions<true, false, T>();
  return last ? arg_functions<false, true, T>() : arg_functions<false, false, T>();
}

}  // namespace

ArgMaxFunctions arg_max_functions(DType type, bool largest, bool last) {
  switch (type) {
    case DType::f32:
      return arg_functions_of<float>(largest, last);
    case DType::f64:
      return arg_functions_of<double>(largest, last);
    case DType::i8:
      return arg_functions_of<std::int8_t>(largest, last);
    case DType::i16:
      return arg_functions_of<std::int16_t>(largest, last);
    case DType::i32:
      return arg_functions_of<std::int32_t>(largest, last);
    case DType::i64:
      return arg_functions_of<std::int64_t>(largest, last);
    case DType::u8:
      return arg_functions_of<std::uint8_t>(largest, last);
    case DType::u16:
      return arg_functions_of<std::uint16_t>(largest, last);
    case DType::u32:
      return arg_functions_of<std::uint32_t>(largest, last);
    case DType::u64:
      return arg_functions_of<std::uint64_t>(largest, last);
    default:
      return {};
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(arg_max_functions);

// Elements per chunk.
constexpr std::int64_t kSearchGrain = 16384;

class TypedArgMaxKernel final : public Kernel {
 public:
  explicit TypedArgMaxKernel(const ops::NodeView& view)
      : functions_(HWY_DYNAMIC_DISPATCH(arg_max_functions)(view.input(0).dtype, view.op().name == "ArgMax",
                                                           view.integer("select_last_index") != 0)),
        element_bytes_(bits_of(view.input(0).dtype) / 8) {
    const Shape& shape = view.input(0).shape;
    const std::int64_t axis = ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(shape.size()));
    length_ = shape[static_cast<std::size_t>(axis)];
    inner_ = element_count(Shape(shape.begin() + axis + 1, shape.end()));
    outer_ = element_count(shape) / (length_ * inner_);
    blocks_ = (inner_ + kColumnsSearched - 1) / kColumnsSearched;
  }

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const std::byte*>(context.input(0).raw());
    std::int64_t* y = context.output(0).mutable_data<std::int64_t>();
    const std::int64_t width = std::min(inner_, kColumnsSearched);
    const std::int64_t grain = std::max<std::int64_t>(1, kSearchGrain / (length_ * width));
    context.parallel_for(outer_ * blocks_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % blocks_ * kColumnsSearched, line = i / blocks_;
        const std::byte* from = x + (line * length_ * inner_ + first) * element_bytes_;
        if (inner_ == 1) y[line] = functions_.row(from, length_);
        else
          functions_.columns(from, length_, inner_, std::min(kColumnsSearched, inner_ - first),
                             y + line * inner_ + first);
      }
    });
  }

 private:
  ArgMaxFunctions functions_;
  std::int64_t element_bytes_, length_ = 1, inner_ = 1, outer_ = 1, blocks_ = 1;
};

}  // namespace

std::string reject_typed_arg_max(const ops::NodeView& view) {
  const Shape& shape = view.input(0).shape;
  if (HWY_DYNAMIC_DISPATCH(arg_max_functions)(view.input(0).dtype, true, false).row == nullptr)
    return "takes f32, f64 and integers of 8 bits or more";
  if (shape.empty() || view.input(0).elements() == 0) return "wants an axis and some elements";
  const std::int64_t axis = ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(shape.size()));
  const bool is_long = shape[static_cast<std::size_t>(axis)] > std::numeric_limits<std::int32_t>::max();
  return is_long ? "searches lines of less than 2^31 elements" : "";
}

KernelPointer make_typed_arg_max(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TypedArgMaxKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
