// Scaler and Normalizer of float32 rows, in double as the reference computes them.
#include <algorithm>
#include <cmath>

#include "backends/cpu/classical/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/classical/feature_rows_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/classical/double_lanes.h"

#ifndef TESSERA_BACKENDS_CPU_FEATURE_ROWS
#define TESSERA_BACKENDS_CPU_FEATURE_ROWS
namespace tessera::backends::cpu {

enum class RowNorm { largest, magnitudes, squares };

// One number for all columns, or one per column.
struct ColumnNumbers {
  const float* data;
  bool single;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

void scale_row(const float* x, float* y, std::int64_t columns, ColumnNumbers offset, ColumnNumbers scale) {
  using namespace wide;
  wide::for_each(columns, [&](std::int64_t i, const auto& load, const auto& store) HWY_ATTR {
    const V less = offset.single ? set(*offset.data) : load(offset.data + i);
    const V factor = scale.single ? set(*scale.data) : load(scale.data + i);
    store(hn::Mul(hn::Sub(load(x + i), less), factor), y + i);
  });
}

// The norm that divides a row. NaN counts in sums, and is ignored by the maximum.
double norm_of(const float* x, std::int64_t columns, RowNorm norm) {
  using namespace wide;
  V value = hn::Zero(D());
  wide::for_each(columns, [&](std::int64_t i, const auto& load, const auto&) HWY_ATTR {
    const V element = load(x + i), magnitude = hn::Abs(element);
    if (norm == RowNorm::squares) value = hn::MulAdd(element, element, value);
    else if (norm == RowNorm::magnitudes) value = hn::Add(value, magnitude);
    else value = hn::IfThenElse(hn::Lt(value, magnitude), magnitude, value);
  });
  if (norm == RowNorm::largest) return hn::GetLane(hn::MaxOfLanes(D(), value));
  return norm == RowNorm::squares ? std::sqrt(sum_of(value)) : sum_of(value);
}

void divide_row(const float* x, float* y, std::int64_t columns, double divisor) {
  using namespace wide;
  const V by = set(divisor);
  wide::for_each(columns, [&](std::int64_t i, const auto& load, const auto& store)
                              HWY_ATTR { store(hn::Div(load(x + i), by), y + i); });
}

}  // namespace

void normalise_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns, RowNorm norm) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const double divisor = norm_of(x + row * columns, columns, norm);
    divide_row(x + row * columns, y + row * columns, columns, divisor == 0 ? 1 : divisor);
  }
}

void scale_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns, ColumnNumbers offset,
                ColumnNumbers scale) {
  for (std::int64_t row = 0; row < rows; ++row) scale_row(x + row * columns, y + row * columns, columns, offset, scale);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(normalise_rows);
HWY_EXPORT(scale_rows);

// Elements per chunk.
constexpr std::int64_t kFeatureGrain = 16384;

// The length of the last axis; 1 for a scalar.
std::int64_t columns_of_rows(const Tensor& x) {
  return x.shape().empty() ? 1 : x.shape().back();
}

// Calls body(first element, rows) for chunks of rows.
template <typename Body>
void for_chunks_of_rows(KernelContext& context, std::int64_t columns, const Body& body) {
  const std::int64_t elements = context.input(0).elements();
  if (elements == 0) return;
  context.parallel_for(elements / columns, std::max<std::int64_t>(1, kFeatureGrain / columns),
                       [&](std::int64_t begin, std::int64_t end) { body(begin * columns, end - begin); });
}

}  // namespace

void scale_features(KernelContext& context) {
  static constexpr float kNoOffset = 0, kNoScale = 1;
  const auto numbers = [&](std::string_view name, const float& fallback) {
    if (!context.has_attribute(name)) return ColumnNumbers{&fallback, true};
    const std::vector<float>& values = context.reals(name);
    return ColumnNumbers{values.data(), values.size() == 1};
  };
  const ColumnNumbers offset = numbers("offset", kNoOffset), scale = numbers("scale", kNoScale);
  const std::int64_t columns = columns_of_rows(context.input(0));
  const float* x = context.input(0).data<float>();
  float* y = context.output(0).mutable_data<float>();
  for_chunks_of_rows(context, columns, [&](std::int64_t first, std::int64_t rows) {
    HWY_DYNAMIC_DISPATCH(scale_rows)(x + first, y + first, rows, columns, offset, scale);
  });
}

void normalise_features(KernelContext& context) {
  const std::string& name = context.text("norm");
  const RowNorm norm = name == "MAX" ? RowNorm::largest : name == "L1" ? RowNorm::magnitudes : RowNorm::squares;
  const std::int64_t columns = columns_of_rows(context.input(0));
  const float* x = context.input(0).data<float>();
  float* y = context.output(0).mutable_data<float>();
  for_chunks_of_rows(context, columns, [&](std::int64_t first, std::int64_t rows) {
    HWY_DYNAMIC_DISPATCH(normalise_rows)(x + first, y + first, rows, columns, norm);
  });
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
