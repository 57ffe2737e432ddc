// Reductions of integers, bools and f64 over any axes, by loops that the compiler vectorises. The layout is that of
// reduction.cpp: whole lines if the innermost axis is reduced, blocks of columns if it is kept.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/cpu/element_wise/cast.h"
#include "backends/cpu/element_wise/independent_elements.h"
#include "backends/cpu/rows/kernels.h"
#include "backends/cpu/rows/reduction_geometry.h"
#include "ops/core/shape_arguments.h"
#include "ops/rows/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/typed_reduction.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_TYPED_REDUCTION
#define TESSERA_BACKENDS_CPU_TYPED_REDUCTION
namespace tessera::backends::cpu {

enum class TypedJoin { sum, magnitudes, squares, product, largest, smallest };

struct TypedReductionFunctions {
  void (*start)(void* sums, std::int64_t count) = nullptr;
  // Joins `count` elements to one sum.
  void (*row)(const void* x, std::int64_t count, void* sum) = nullptr;
  // Joins each of `count` elements, or sums, to the sum at its position.
  void (*columns)(const void* x, std::int64_t count, void* sums) = nullptr;
  void (*join)(const void* others, std::int64_t count, void* sums) = nullptr;
  std::int64_t sum_bytes = 0;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

template <TypedJoin kind, typename Sum>
HWY_INLINE Sum joined(Sum a, Sum b) {
  if constexpr (kind == TypedJoin::product) {
    return static_cast<Sum>(a * b);
  } else if constexpr (kind == TypedJoin::largest || kind == TypedJoin::smallest) {
    // The result is NaN if either operand is NaN.
    if constexpr (std::is_floating_point_v<Sum>) {
      const Sum better = kind == TypedJoin::largest ? (a < b ? b : a) : (b < a ? b : a);
      return a != a ? a : b != b ? b : better;
    }
    return kind == TypedJoin::largest ? (a < b ? b : a) : (b < a ? b : a);
  } else {
    return static_cast<Sum>(a + b);
  }
}

template <TypedJoin kind, typename Sum, typename T>
HWY_INLINE Sum term(T x) {
  const auto value = static_cast<Sum>(x);
  if constexpr (kind == TypedJoin::squares) return static_cast<Sum>(value * value);
  if constexpr (kind == TypedJoin::magnitudes) {
    if constexpr (std::is_floating_point_v<Sum>) return std::fabs(value);
    else return x < 0 ? static_cast<Sum>(Sum{0} - value) : value;
  }
  return value;
}

template <TypedJoin kind, typename Sum>
constexpr Sum neutral_sum() {
  using Limits = std::numeric_limits<Sum>;
  if (kind == TypedJoin::product) return 1;
  if (kind == TypedJoin::largest) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if (kind == TypedJoin::smallest) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return 0;
}

template <TypedJoin kind, typename T, typename Sum>
struct Reducing {
  static void start(void* sums, std::int64_t count) {
    std::fill_n(static_cast<Sum*>(sums), count, neutral_sum<kind, Sum>());
  }

  static void row(const void* x_data, std::int64_t count, void* sum_data) {
    const auto* x = static_cast<const T*>(x_data);
    auto& sum = *static_cast<Sum*>(sum_data);
    constexpr std::int64_t many = 128 / sizeof(Sum), few = 16;
    std::int64_t done = 0;
    if (count >= 2 * many) done = in_lanes<many>(x, count, sum);
    else if (count >= few) done = in_lanes<few>(x, count, sum);
    for (; done < count; ++done) sum = joined<kind>(sum, term<kind, Sum>(x[done]));
  }

  // Joins elements in `lanes` sums, which are joined at the end as a tree; returns the number of elements processed.
  template <std::int64_t lanes>
  static HWY_INLINE std::int64_t in_lanes(const T* x, std::int64_t count, Sum& sum) {
    alignas(64) Sum sums[lanes];
    for (std::int64_t k = 0; k < lanes; ++k) sums[k] = term<kind, Sum>(x[k]);
    std::int64_t i = lanes;
    for (; i + lanes <= count; i += lanes) {
      TESSERA_INDEPENDENT_ELEMENTS
      for (std::int64_t k = 0; k < lanes; ++k) sums[k] = joined<kind>(sums[k], term<kind, Sum>(x[i + k]));
    }
    fold<lanes>(sums);
    sum = joined<kind>(sum, sums[0]);
    return i;
  }

  template <std::int64_t lanes>
  static HWY_INLINE void fold(Sum* sums) {
    if constexpr (lanes > 1) {
      TESSERA_INDEPENDENT_ELEMENTS
      for (std::int64_t k = 0; k < lanes / 2; ++k) sums[k] = joined<kind>(sums[k], sums[k + lanes / 2]);
      fold<lanes / 2>(sums);
    }
  }

  static void columns(const void* x_data, std::int64_t count, void* sum_data) {
    const auto* x = static_cast<const T*>(x_data);
    auto* sums = static_cast<Sum*>(sum_data);
    std::int64_t i = 0;
    for (; i + kTogether <= count; i += kTogether) {
      TESSERA_INDEPENDENT_ELEMENTS
      for (std::int64_t k = 0; k < kTogether; ++k) sums[i + k] = joined<kind>(sums[i + k], term<kind, Sum>(x[i + k]));
    }
    for (; i < count; ++i) sums[i] = joined<kind>(sums[i], term<kind, Sum>(x[i]));
  }

  static void join(const void* other_data, std::int64_t count, void* sum_data) {
    const auto* others = static_cast<const Sum*>(other_data);
    auto* sums = static_cast<Sum*>(sum_data);
    for (std::int64_t i = 0; i < count; ++i) sums[i] = joined<kind>(sums[i], others[i]);
  }

  static TypedReductionFunctions functions() { return {start, row, columns, join, sizeof(Sum)}; }
};

// Sums are doubles, or wrap in an unsigned type of the elements' size.
template <TypedJoin kind>
TypedReductionFunctions reducing(DType type, bool in_double) {
  switch (type) {
    case DType::f64:
      return Reducing<kind, double, double>::functions();
    case DType::i32:
      return in_double ? Reducing<kind, std::int32_t, double>::functions()
                       : Reducing<kind, std::int32_t, std::uint32_t>::functions();
    case DType::u32:
      return in_double ? Reducing<kind, std::uint32_t, double>::functions()
                       : Reducing<kind, std::uint32_t, std::uint32_t>::functions();
    case DType::i64:
      return in_double ? Reducing<kind, std::int64_t, double>::functions()
                       : Reducing<kind, std::int64_t, std::uint64_t>::functions();
    case DType::u64:
      return in_double ? Reducing<kind, std::uint64_t, double>::functions()
                       : Reducing<kind, std::uint64_t, std::uint64_t>::functions();
    default:
      return {};
  }
}

template <TypedJoin kind>
TypedReductionFunctions extreme_of(DType type) {
  switch (type) {
    case DType::f64:
      return Reducing<kind, double, double>::functions();
    case DType::i8:
      return Reducing<kind, std::int8_t, std::int8_t>::functions();
    case DType::i32:
      return Reducing<kind, std::int32_t, std::int32_t>::functions();
    case DType::i64:
      return Reducing<kind, std::int64_t, std::int64_t>::functions();
    case DType::u8:
    case DType::boolean:
      return Reducing<kind, std::uint8_t, std::uint8_t>::functions();
    case DType::u32:
      return Reducing<kind, std::uint32_t, std::uint32_t>::functions();
    case DType::u64:
      return Reducing<kind, std::uint64_t, std::uint64_t>::functions();
    default:
      return {};
  }
}

}  // namespace

TypedReductionFunctions typed_reduction_functions(TypedJoin kind, DType type, bool in_double) {
  switch (kind) {
    case TypedJoin::sum:
      return reducing<TypedJoin::sum>(type, in_double);
    case TypedJoin::magnitudes:
      return reducing<TypedJoin::magnitudes>(type, in_double);
    case TypedJoin::squares:
      return reducing<TypedJoin::squares>(type, in_double);
    case TypedJoin::product:
      return reducing<TypedJoin::product>(type, in_double);
    case TypedJoin::largest:
      return extreme_of<TypedJoin::largest>(type);
    case TypedJoin::smallest:
      return extreme_of<TypedJoin::smallest>(type);
  }
  return {};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(typed_reduction_functions);

// Elements per chunk, and elements of a line at a time.
constexpr std::int64_t kTypedGrain = 16384, kLinePart = 4096;
// Columns reduced together.
constexpr std::int64_t kColumnsTogether = 256;
// The most pieces that a group of many elements is cut into, for threads.
constexpr std::int64_t kMostGroupPieces = 32;
constexpr std::int64_t kMostSumBytes = 8;

enum class DoubleFinish { none, mean, square_root, logarithm };

struct TypedReductionName {
  std::string_view op;
  TypedJoin kind;
  DoubleFinish finish = DoubleFinish::none;
};
constexpr TypedReductionName kTypedNames[] = {
    {"ReduceL1", TypedJoin::magnitudes},
    {"ReduceL2", TypedJoin::squares, DoubleFinish::square_root},
    {"ReduceLogSum", TypedJoin::sum, DoubleFinish::logarithm},
    {"ReduceMax", TypedJoin::largest},
    {"ReduceMean", TypedJoin::sum, DoubleFinish::mean},
    {"ReduceMin", TypedJoin::smallest},
    {"ReduceProd", TypedJoin::product},
    {"ReduceSum", TypedJoin::sum},
    {"ReduceSumSquare", TypedJoin::squares},
};

TypedReductionFunctions functions_for(const TypedReductionName& name, DType type) {
  return HWY_DYNAMIC_DISPATCH(typed_reduction_functions)(name.kind, type, name.finish != DoubleFinish::none);
}

class TypedReductionKernel final : public Kernel {
 public:
  TypedReductionKernel(const TypedReductionName& name, DType type, const Shape& shape,
                       const std::vector<std::int64_t>& axes)
      : functions_(functions_for(name, type)),
        finish_(name.finish),
        geometry_(shape, axes),
        element_bytes_(bits_of(type) / 8) {
    if (finish_ != DoubleFinish::none && type != DType::f64) to_type_ = cast_line(DType::f64, type);
    units_ = 1;
    for (const ReductionAxis& axis : geometry_.reduced) units_ *= axis.count;
    if (geometry_.along_rows && geometry_.reduced.empty()) {
      units_ = (geometry_.line + kLinePart - 1) / kLinePart;
      is_cut_line_ = true;
    }
    width_ = geometry_.along_rows ? 1 : std::min(geometry_.line, kColumnsTogether);
    blocks_ = geometry_.along_rows ? 1 : (geometry_.line + kColumnsTogether - 1) / kColumnsTogether;
    if (geometry_.results * blocks_ < kMostGroupPieces) {
      pieces_ = std::clamp<std::int64_t>(geometry_.group * width_ / kTypedGrain, 1, std::min(kMostGroupPieces, units_));
    }
  }

  std::int64_t scratch_bytes() const override {
    return pieces_ == 1 ? 0 : items() * pieces_ * kColumnsTogether * kMostSumBytes;
  }

  void run(KernelContext& context) const override {
    const auto* x = static_cast<const std::byte*>(context.input(0).raw());
    auto* y = static_cast<std::byte*>(context.output(0).mutable_raw());
    if (pieces_ == 1) {
      const std::int64_t grain = std::max<std::int64_t>(1, kTypedGrain / (geometry_.group * width_));
      context.parallel_for(items(), grain, [&](std::int64_t begin, std::int64_t end) {
        alignas(64) std::byte sums[kColumnsTogether * kMostSumBytes];
        for (std::int64_t item = begin; item < end; ++item) {
          reduce(x, item, 0, units_, sums);
          store(sums, item, y);
        }
      });
      return;
    }
    std::byte* parts = context.scratch();
    constexpr std::int64_t part_bytes = kColumnsTogether * kMostSumBytes;
    context.parallel_for(items() * pieces_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t piece = i % pieces_;
        reduce(x, i / pieces_, units_ * piece / pieces_, units_ * (piece + 1) / pieces_, parts + i * part_bytes);
      }
    });
    for (std::int64_t item = 0; item < items(); ++item) {
      std::byte* first = parts + item * pieces_ * part_bytes;
      for (std::int64_t piece = 1; piece < pieces_; ++piece)
        functions_.join(first + piece * part_bytes, columns_of(item), first);
      store(first, item, y);
    }
  }

 private:
  // The number of work items: an item is one result, or a block of neighbouring ones.
  std::int64_t items() const { return geometry_.results * blocks_; }
  std::int64_t columns_of(std::int64_t item) const {
    return geometry_.along_rows ? 1 : std::min(kColumnsTogether, geometry_.line - item % blocks_ * kColumnsTogether);
  }

  // Joins the units [begin, end): lines, or parts of lines, of a result.
  void reduce(const std::byte* x, std::int64_t item, std::int64_t begin, std::int64_t end, std::byte* sums) const {
    const std::int64_t columns = columns_of(item);
    functions_.start(sums, columns);
    x += (offset_of(geometry_.kept, item / blocks_) + item % blocks_ * kColumnsTogether) * element_bytes_;
    if (is_cut_line_) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        functions_.row(x + unit * kLinePart * element_bytes_, std::min(kLinePart, geometry_.line - unit * kLinePart),
                       sums);
      }
      return;
    }
    const std::span<const ReductionAxis> axes(geometry_.reduced);
    const ReductionAxis inner = axes.empty() ? ReductionAxis{1, 0} : axes.back();
    for (std::int64_t unit = begin; unit < end;) {
      const std::int64_t first = unit % inner.count, last = std::min(inner.count, first + end - unit);
      const std::int64_t offset =
          axes.empty() ? 0 : offset_of(axes.first(axes.size() - 1), unit / inner.count) + first * inner.stride;
      const std::byte* from = x + offset * element_bytes_;
      for (std::int64_t i = first; i < last; ++i, from += inner.stride * element_bytes_) {
        if (geometry_.along_rows) functions_.row(from, geometry_.line, sums);
        else functions_.columns(from, columns, sums);
      }
      unit += last - first;
    }
  }

  void store(std::byte* sums, std::int64_t item, std::byte* y) const {
    const std::int64_t columns = columns_of(item);
    if (finish_ != DoubleFinish::none) finish(reinterpret_cast<double*>(sums), columns);
    const std::int64_t first =
        geometry_.along_rows ? item : item / blocks_ * geometry_.line + item % blocks_ * kColumnsTogether;
    y += first * element_bytes_;
    if (to_type_ != nullptr) to_type_(sums, y, columns);
    else std::memcpy(y, sums, static_cast<std::size_t>(columns * element_bytes_));
  }

  void finish(double* sums, std::int64_t count) const {
    const auto group = static_cast<double>(geometry_.group);
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = finish_ == DoubleFinish::mean          ? sums[i] / group
                : finish_ == DoubleFinish::square_root ? std::sqrt(sums[i])
                                                       : std::log(sums[i]);
    }
  }

  TypedReductionFunctions functions_;
  DoubleFinish finish_;
  ReductionGeometry geometry_;
  std::int64_t element_bytes_;
  CastLine to_type_ = nullptr;  // of sums in double, for integers
  std::int64_t units_ = 1, width_ = 1, blocks_ = 1, pieces_ = 1;
  bool is_cut_line_ = false;
};

const TypedReductionName* typed_name(std::string_view op) {
  const auto* name = std::ranges::find(kTypedNames, op, &TypedReductionName::op);
  return name == std::end(kTypedNames) ? nullptr : name;
}

}  // namespace

std::string reject_typed_reduction(const ops::NodeView& view) {
  const TypedReductionName* name = typed_name(view.op().name);
  if (name == nullptr || functions_for(*name, view.input(0).dtype).row == nullptr)
    return "takes f64, integers and bool";
  if (view.has_input(1) && view.constant(1) == nullptr) return "wants axes that are known before the run";
  return view.input(0).elements() == 0 ? "reduces no empty tensor" : "";
}

KernelPointer make_typed_reduction(const ops::NodeView& view, WeightStore&) {
  std::vector<std::int64_t> given;
  if (view.has_input(1)) given = ops::integers_of(*view.constant(1));
  const Shape& shape = view.input(0).shape;
  const auto axes =
      ops::reduction_axes(given, static_cast<std::int64_t>(shape.size()), view.integer("noop_with_empty_axes") != 0);
  return std::make_unique<TypedReductionKernel>(*typed_name(view.op().name), view.input(0).dtype, shape, axes);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
