// Where: a choice between two operands, element by element.
#include <algorithm>
#include <cstring>

#include "backends/cpu/element_wise/broadcast.h"
#include "backends/cpu/element_wise/element_wise_binary.h"
#include "backends/cpu/element_wise/independent_elements.h"
#include "backends/cpu/element_wise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/element_wise_where.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// z = condition ? x : y for elements of 4 bytes, as bits.
template <bool x_moves, bool y_moves>
void where_line(const std::uint8_t* condition, const std::uint32_t* x, const std::uint32_t* y, std::uint32_t* z,
                std::int64_t count) {
  std::int64_t i = 0;
  const std::uint32_t x_first = *x, y_first = *y;  // read before z, which may be the memory of either, is written
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto x_fixed = hn::Set(d, x_first), y_fixed = hn::Set(d, y_first);
  for (; i + lanes <= count; i += lanes) {
    const auto chosen = hn::Ne(hn::PromoteTo(d, hn::LoadU(d8, condition + i)), hn::Zero(d));
    hn::StoreU(hn::IfThenElse(chosen, x_moves ? hn::LoadU(d, x + i) : x_fixed, y_moves ? hn::LoadU(d, y + i) : y_fixed),
               d, z + i);
  }
#endif
  for (; i < count; ++i) z[i] = condition[i] != 0 ? (x_moves ? x[i] : x_first) : (y_moves ? y[i] : y_first);
}

// z = condition ? x : y for elements of other sizes.
template <bool x_moves, bool y_moves, typename T>
void where_line(const std::uint8_t* condition, const T* x, const T* y, T* z, std::int64_t count) {
  const T x_first = *x, y_first = *y;
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    TESSERA_INDEPENDENT_ELEMENTS
    for (std::int64_t k = 0; k < kTogether; ++k) {
      const T a = x_moves ? x[i + k] : x_first, b = y_moves ? y[i + k] : y_first;
      z[i + k] = condition[i + k] != 0 ? a : b;
    }
  }
  for (; i < count; ++i) z[i] = condition[i] != 0 ? (x_moves ? x[i] : x_first) : (y_moves ? y[i] : y_first);
}

template <typename T>
void where_of(const std::uint8_t* condition, const void* x_data, bool x_moves, const void* y_data, bool y_moves,
              void* z_data, std::int64_t count) {
  const auto *x = static_cast<const T*>(x_data), *y = static_cast<const T*>(y_data);
  auto* z = static_cast<T*>(z_data);
  if (x_moves)
    return y_moves ? where_line<true, true>(condition, x, y, z, count)
                   : where_line<true, false>(condition, x, y, z, count);
  return y_moves ? where_line<false, true>(condition, x, y, z, count)
                 : where_line<false, false>(condition, x, y, z, count);
}

}  // namespace

// Calls the line for elements of `bytes` bytes; all operands but x and y advance, and lines are not empty.
void where_line_of(std::int64_t bytes, const std::uint8_t* condition, const void* x, bool x_moves, const void* y,
                   bool y_moves, void* z, std::int64_t count) {
  switch (bytes) {
    case 1:
      return where_of<std::uint8_t>(condition, x, x_moves, y, y_moves, z, count);
    case 2:
      return where_of<std::uint16_t>(condition, x, x_moves, y, y_moves, z, count);
    case 4:
      return where_of<std::uint32_t>(condition, x, x_moves, y, y_moves, z, count);
    default:
      return where_of<std::uint64_t>(condition, x, x_moves, y, y_moves, z, count);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(where_line_of);

constexpr std::int64_t kGrain = 32768;  // elements per chunk

template <typename T>
void where_line(const bool* condition, std::int64_t condition_step, const T* x, std::int64_t x_step, const T* y,
                std::int64_t y_step, T* z, std::int64_t count) {
  if (condition_step == 1)
    return HWY_DYNAMIC_DISPATCH(where_line_of)(sizeof(T), reinterpret_cast<const std::uint8_t*>(condition), x,
                                               x_step == 1, y, y_step == 1, z, count);
  const T* chosen = *condition ? x : y;
  if ((*condition ? x_step : y_step) == 0) std::fill_n(z, count, T{*chosen});
  else std::memmove(z, chosen, static_cast<std::size_t>(count) * sizeof(T));
}

class WhereKernel final : public Kernel {
 public:
  explicit WhereKernel(const ops::NodeView& view)
      : broadcast_(view.output(0).shape, {&view.input(0).shape, &view.input(1).shape, &view.input(2).shape}) {}

  void run(KernelContext& context) const override {
    switch (bits_of(context.output(0).dtype())) {
      case 8:
        return run_typed<std::uint8_t>(context);
      case 16:
        return run_typed<std::uint16_t>(context);
      case 32:
        return run_typed<std::uint32_t>(context);
      default:
        return run_typed<std::uint64_t>(context);
    }
  }

 private:
  template <typename T>
  void run_typed(KernelContext& context) const {
    const bool* condition = context.input(0).data<bool>();
    const auto *x = static_cast<const T*>(context.input(1).raw()), *y = static_cast<const T*>(context.input(2).raw());
    auto* z = static_cast<T*>(context.output(0).mutable_raw());
    broadcast_.walk(context, kGrain, [&](const auto& from, std::int64_t to, std::int64_t count) {
      where_line(condition + from[0], broadcast_.line_stride(0), x + from[1], broadcast_.line_stride(1), y + from[2],
                 broadcast_.line_stride(2), z + to, count);
    });
  }

  Broadcast broadcast_;
};

}  // namespace

void f32_where_line(const bool* condition, bool condition_moves, const void* x, bool x_moves, const void* y,
                    bool y_moves, void* z, std::int64_t count) {
  where_line(condition, condition_moves ? 1 : 0, static_cast<const std::uint32_t*>(x), x_moves ? 1 : 0,
             static_cast<const std::uint32_t*>(y), y_moves ? 1 : 0, static_cast<std::uint32_t*>(z), count);
}

std::string reject_where(const ops::NodeView& view) {
  if (view.output(0).dtype == DType::undefined) return "wants known shapes";
  const int bits = bits_of(view.input(1).dtype);
  return bits >= 8 && bits <= 64 ? "" : "moves elements of 1, 2, 4 or 8 bytes";
}

std::unique_ptr<Kernel> make_where(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<WhereKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
