// Product of few rows with large float32 weights [outputs, inputs]: dot products with the weights where they lie in the
// model, which are read once and never copied.
#include <algorithm>
#include <array>

#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/linear_few_rows_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/rows/vector_rows.h"

#ifndef TESSERA_BACKENDS_CPU_LINEAR_FEW_ROWS
#define TESSERA_BACKENDS_CPU_LINEAR_FEW_ROWS
namespace tessera::backends::cpu {

inline constexpr int kMostDotRows = 4, kDotColumns = 4;

// y[i * ldy + j] = sum over k of x[i * length + k] * w[j * length + k], for j < columns; one function per number of
// rows i.
using DotFunction = void (*)(const float* x, const float* w, std::int64_t length, std::int64_t columns, float* y,
                             std::int64_t ldy);
using DotFunctions = std::array<DotFunction, kMostDotRows>;  // by number of rows - 1

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

template <int row_count, int column_count>
HWY_INLINE void dot_products(const float* x, const float* w, std::int64_t length, float* y, std::int64_t ldy) {
  const D d;
  const std::int64_t lanes = lane_count();
  V sum[row_count][column_count];
#pragma GCC unroll 4
  for (auto& row : sum) {
#pragma GCC unroll 4
    for (V& each : row) each = hn::Zero(d);
  }
  const auto add = [&](auto load, std::int64_t k) HWY_ATTR {
    V left[row_count];
#pragma GCC unroll 4
    for (int i = 0; i < row_count; ++i) left[i] = load(x + i * length + k);
#pragma GCC unroll 4
    for (int j = 0; j < column_count; ++j) {
      const V right = load(w + j * length + k);
#pragma GCC unroll 4
      for (int i = 0; i < row_count; ++i) sum[i][j] = hn::MulAdd(left[i], right, sum[i][j]);
    }
  };
  std::int64_t k = 0;
  for (; k + lanes <= length; k += lanes) add([&](const float* from) HWY_ATTR { return hn::LoadU(d, from); }, k);
  if (k < length) {
    const Mask rest = hn::FirstN(d, static_cast<std::size_t>(length - k));
    add([&](const float* from) HWY_ATTR { return hn::MaskedLoad(rest, d, from); }, k);
  }
#pragma GCC unroll 4
  for (int i = 0; i < row_count; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < column_count; ++j) y[i * ldy + j] = join_lanes(Sum(), sum[i][j]);
  }
}

template <int row_count>
void dot_lines(const float* x, const float* w, std::int64_t length, std::int64_t columns, float* y, std::int64_t ldy) {
  std::int64_t j = 0;
  for (; j + kDotColumns <= columns; j += kDotColumns)
    dot_products<row_count, kDotColumns>(x, w + j * length, length, y + j, ldy);
  for (; j < columns; ++j) dot_products<row_count, 1>(x, w + j * length, length, y + j, ldy);
}

}  // namespace

const DotFunctions* dot_functions() {
  static constexpr DotFunctions functions{dot_lines<1>, dot_lines<2>, dot_lines<3>, dot_lines<4>};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(dot_functions);

// Packed weights lie on huge pages, which are read 1.5 times as fast: below this size the copy is worth its memory.
constexpr std::int64_t kLargeBytes = std::int64_t{64} << 20;
constexpr std::int64_t kChunkBytes = 500'000;

class LinearOfFewRows final : public Kernel {
 public:
  explicit LinearOfFewRows(const ops::NodeView& view) : activation_(plan_activation(view)) {
    const Shape& w = view.input(1).shape;
    columns_ = w[0];
    length_ = w[1];
    rows_ = view.output(0).elements() / std::max<std::int64_t>(columns_, 1);
    if (rows_ > 0) dot_ = (*HWY_DYNAMIC_DISPATCH(dot_functions)())[static_cast<std::size_t>(rows_ - 1)];
    grain_ = std::max<std::int64_t>(kDotColumns,
                                    kChunkBytes / (4 * std::max<std::int64_t>(length_, 1)) / kDotColumns * kDotColumns);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float *x = context.input(0).data<float>(), *w = context.input(1).data<float>();
    const float* bias = context.has_input(2) ? context.input(2).data<float>() : nullptr;
    const float* addend = context.has_input(3) ? context.input(3).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    context.parallel_for(columns_, grain_, [&](std::int64_t begin, std::int64_t end) {
      dot_(x, w + begin * length_, length_, end - begin, y + begin, columns_);
      for (std::int64_t i = 0; i < rows_; ++i) {
        float* line = y + i * columns_;
        for (std::int64_t j = begin; j < end; ++j) {
          float value = line[j] + (bias != nullptr ? bias[j] : 0.0f);
          if (addend != nullptr) value += addend[i * columns_ + j];
          // NaN stays.
          if (value < activation_.low) value = activation_.low;
          if (value > activation_.high) value = activation_.high;
          line[j] = value;
        }
        if (activation_.after.function != nullptr) activation_.after(line + begin, end - begin);
      }
    });
  }

 private:
  ActivationPlan activation_;
  std::int64_t rows_ = 0, columns_ = 0, length_ = 0, grain_ = 1;
  DotFunction dot_ = nullptr;
};

}  // namespace

std::string reject_linear_few_rows_f32(const ops::NodeView& view) {
  if (std::string reason = reject_linear_f32(view); !reason.empty()) return reason;
  if (view.integer("transB") == 0) return "the weights are [inputs, outputs]";
  return view.output(0).elements() > kMostDotRows * view.input(1).shape[0] ? "many rows" : "";
}
std::string avoid_linear_few_rows_f32(const ops::NodeView& view) {
  return view.input(1).elements() * 4 < kLargeBytes ? "small weights" : "";
}

KernelPointer make_linear_few_rows_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<LinearOfFewRows>(view);
}

}  // namespace tessera::backends::cpu
#endif
