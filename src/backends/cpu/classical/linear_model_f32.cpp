// LinearClassifier and LinearRegressor of float32 rows. Products are summed in double and rounded once, so that classes
// tie where those of the reference do; transforms of the rounded scores are computed in float32.
#include <algorithm>
#include <cmath>

#include "backends/cpu/classical/kernels.h"
#include "backends/cpu/classical/label_writer.h"
#include "backends/host/class_scores.h"
#include "ops/classical/linear_model.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/classical/linear_model_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/classical/double_lanes.h"
#include "backends/cpu/element_wise/math.h"
#include "backends/cpu/machine/vector_loop.h"

#ifndef TESSERA_BACKENDS_CPU_LINEAR_MODEL
#define TESSERA_BACKENDS_CPU_LINEAR_MODEL
namespace tessera::backends::cpu {

// The index of the first of the largest scores, as std::max_element finds it, but without branches: which class wins is
// hard to predict.
inline std::size_t first_largest(const float* scores, std::int64_t count) {
  std::size_t best = 0;
  float largest = scores[0];
  for (std::int64_t i = 1; i < count; ++i) {
    const bool wins = largest < scores[i];
    largest = wins ? scores[i] : largest;
    best = wins ? static_cast<std::size_t>(i) : best;
  }
  return best;
}

struct LinearModel {
  const float* coefficients;  // [classes, features]
  const float* intercepts;    // one per class, or null
  std::int64_t classes, features;
  // The coefficients as [features, padded] and the intercepts as [padded], with zeros behind the last class; null if
  // there is only one class.
  const double* by_feature = nullptr;
  const double* padded_intercepts = nullptr;
  std::int64_t padded = 0;
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using wide::V;

// Scores of kRows rows for kClasses classes, from `first` on. A score does not depend on how many are computed at once.
template <int kRows, int kClasses>
HWY_INLINE void score_tile(const LinearModel& model, const float* x, std::int64_t first, float* y) {
  const float* w = model.coefficients + first * model.features;
  V sums[kRows][kClasses];
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int c = 0; c < kClasses; ++c) sums[row][c] = wide::set(0);
  }
  wide::for_each(model.features, [&](std::int64_t i, const auto& load, const auto&) HWY_ATTR {
    V inputs[kRows];
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) inputs[row] = load(x + row * model.features + i);
#pragma GCC unroll 4
    for (int c = 0; c < kClasses; ++c) {
      const V weights = load(w + c * model.features + i);
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) sums[row][c] = hn::MulAdd(inputs[row], weights, sums[row][c]);
    }
  });
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int c = 0; c < kClasses; ++c) {
      const double intercept = model.intercepts != nullptr ? model.intercepts[first + c] : 0;
      y[row * model.classes + first + c] = static_cast<float>(wide::sum_of(sums[row][c]) + intercept);
    }
  }
}

template <int kRows>
void score_classes(const LinearModel& model, const float* x, float* y) {
  std::int64_t first = 0;
  for (; first + 4 <= model.classes; first += 4) score_tile<kRows, 4>(model, x, first, y);
  for (; first < model.classes; ++first) score_tile<kRows, 1>(model, x, first, y);
}

// Scores of kRows rows with one class per lane, which needs no sums across lanes.
template <int kRows>
void score_in_lanes(const LinearModel& model, const float* x, float* y) {
  constexpr std::int64_t kBlock = 64;  // features that are widened before they are multiplied
  const std::int64_t lanes = wide::lane_count();
  for (std::int64_t c = 0; c < model.classes; c += lanes) {
    V sums[kRows];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) sums[row] = wide::load(model.padded_intercepts + c);
    for (std::int64_t first = 0; first < model.features; first += kBlock) {
      const std::int64_t count = std::min(kBlock, model.features - first);
      HWY_ALIGN double inputs[kRows * kBlock];
      for (int row = 0; row < kRows; ++row) {
        const float* from = x + row * model.features + first;
        for (std::int64_t i = 0; i < count; i += lanes) {
          const V part = i + lanes <= count ? wide::load(from + i) : wide::load_first(from + i, count - i);
          hn::StoreU(part, wide::D(), inputs + row * kBlock + i);
        }
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const V weights = wide::load(model.by_feature + (first + i) * model.padded + c);
#pragma GCC unroll 8
        for (int row = 0; row < kRows; ++row)
          sums[row] = hn::MulAdd(wide::set(inputs[row * kBlock + i]), weights, sums[row]);
      }
    }
    const auto mask = hn::FirstN(wide::Narrow(), static_cast<std::size_t>(std::min(lanes, model.classes - c)));
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row)
      hn::BlendedStore(wide::narrow(sums[row]), mask, wide::Narrow(), y + row * model.classes + c);
  }
}

}  // namespace

void linear_scores(const LinearModel& model, const float* x, std::int64_t rows, float* y) {
  std::int64_t row = 0;
  if (model.by_feature != nullptr) {
    for (; row + 8 <= rows; row += 8) score_in_lanes<8>(model, x + row * model.features, y + row * model.classes);
    for (; row < rows; ++row) score_in_lanes<1>(model, x + row * model.features, y + row * model.classes);
    return;
  }
  for (; row + 2 <= rows; row += 2) score_classes<2>(model, x + row * model.features, y + row * model.classes);
  if (row < rows) score_classes<1>(model, x + row * model.features, y + row * model.classes);
}

void logistic_scores(float* y, std::int64_t count) {
  for_each_vector(count, [&](std::int64_t i, const auto& load, const auto& store)
                             HWY_ATTR { store(math::sigmoid(hn::ScalableTag<float>(), load(y + i)), y + i); });
}

void softmax_scores(float* y, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* scores = y + row * classes;
    const float largest = scores[first_largest(scores, classes)];
    for (std::int64_t i = 0; i < classes; ++i) scores[i] -= largest;
  }
  for_each_vector(rows * classes, [&](std::int64_t i, const auto& load, const auto& store)
                                      HWY_ATTR { store(math::exp(hn::ScalableTag<float>(), load(y + i)), y + i); });
  for (std::int64_t row = 0; row < rows; ++row) {
    float* scores = y + row * classes;
    double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) sum += scores[i];
    const float inverse = static_cast<float>(1 / sum);
    for (std::int64_t i = 0; i < classes; ++i) scores[i] *= inverse;
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(linear_scores);
HWY_EXPORT(logistic_scores);
HWY_EXPORT(softmax_scores);

// Multiplications per chunk: more time than waking a thread takes.
constexpr std::int64_t kLinearGrain = 128 * 1024;

// The number of classes is padded to a multiple of this: a multiple of the lanes of any instruction set.
constexpr std::int64_t kPaddedClasses = 8;
// The most coefficients that are copied in another order.
constexpr std::int64_t kMostCopied = std::int64_t{1} << 20;

// The coefficients of a node, by class as stored and, if it has several classes, by feature.
class LinearCoefficients {
 public:
  LinearCoefficients(const ops::AttributeReader& reader, std::int64_t classes, std::int64_t features)
      : classes_(classes),
        features_(features),
        padded_((classes + kPaddedClasses - 1) / kPaddedClasses * kPaddedClasses) {
    if (classes < 2 || features < 1 || classes > kMostCopied / features) return;
    const std::vector<float>& coefficients = reader.reals("coefficients");
    by_feature_.resize(static_cast<std::size_t>(features * padded_));
    intercepts_.resize(static_cast<std::size_t>(padded_));
    for (std::int64_t c = 0; c < classes; ++c) {
      for (std::int64_t i = 0; i < features; ++i)
        by_feature_[static_cast<std::size_t>(i * padded_ + c)] =
            coefficients[static_cast<std::size_t>(c * features + i)];
    }
    if (const float* given = intercepts_of(reader)) std::copy_n(given, classes, intercepts_.begin());
  }

  LinearModel model(const ops::AttributeReader& reader) const {
    const float* coefficients = reader.has_attribute("coefficients") ? reader.reals("coefficients").data() : nullptr;
    LinearModel model{coefficients, intercepts_of(reader), classes_, features_};
    if (by_feature_.empty()) return model;
    model.by_feature = by_feature_.data();
    model.padded_intercepts = intercepts_.data();
    model.padded = padded_;
    return model;
  }

 private:
  static const float* intercepts_of(const ops::AttributeReader& reader) {
    const bool given = reader.has_attribute("intercepts") && !reader.reals("intercepts").empty();
    return given ? reader.reals("intercepts").data() : nullptr;
  }

  std::int64_t classes_, features_, padded_;
  std::vector<double> by_feature_, intercepts_;
};

void transform_rows(float* y, std::int64_t rows, std::int64_t classes, ops::PostTransform transform) {
  if (transform == ops::PostTransform::none) return;
  if (transform == ops::PostTransform::logistic) return HWY_DYNAMIC_DISPATCH(logistic_scores)(y, rows * classes);
  if (transform == ops::PostTransform::softmax) return HWY_DYNAMIC_DISPATCH(softmax_scores)(y, rows, classes);
  std::vector<double> scores(static_cast<std::size_t>(classes));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(y + row * classes, classes, scores.begin());
    host::transform_scores(scores, transform);
    std::transform(scores.begin(), scores.end(), y + row * classes, [](double x) { return static_cast<float>(x); });
  }
}

// Scores of two classes from the one that was computed, by host::scores_of_pair.
void write_pairs(const float* scores, std::int64_t rows, float* z, ops::PostTransform transform) {
  const bool logistic = transform == ops::PostTransform::logistic;
  for (std::int64_t row = 0; row < rows; ++row) {
    z[2 * row] = logistic ? -scores[row] : static_cast<float>(1.0 - scores[row]);
    z[2 * row + 1] = scores[row];
  }
  if (logistic) HWY_DYNAMIC_DISPATCH(logistic_scores)(z, 2 * rows);
}

// Calls body(first, rows) for chunks of the input's rows.
template <typename Body>
void for_rows_of_model(const KernelContext& context, const LinearModel& model, const Body& body) {
  const Shape& shape = context.input(0).shape();
  const std::int64_t cost = std::max<std::int64_t>(1, (model.features + 16) * model.classes);
  context.parallel_for(shape.size() == 2 ? shape[0] : 1, std::max<std::int64_t>(2, kLinearGrain / cost),
                       [&](std::int64_t begin, std::int64_t end) { body(begin, end - begin); });
}

class LinearRegressor final : public Kernel {
 public:
  explicit LinearRegressor(const ops::NodeView& view)
      : coefficients_(view, view.integer("targets"), view.input(0).shape.back()),
        transform_(ops::post_transform_named(view.text("post_transform"))) {}

  void run(KernelContext& context) const override {
    const LinearModel model = coefficients_.model(context);
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    for_rows_of_model(context, model, [&](std::int64_t first, std::int64_t rows) {
      float* scores = y + first * model.classes;
      HWY_DYNAMIC_DISPATCH(linear_scores)(model, x + first * model.features, rows, scores);
      transform_rows(scores, rows, model.classes, transform_);
    });
  }

 private:
  LinearCoefficients coefficients_;
  ops::PostTransform transform_;
};

class LinearClassifier final : public Kernel {
 public:
  explicit LinearClassifier(const ops::NodeView& view)
      : coefficients_(view, static_cast<std::int64_t>(view.reals("coefficients").size()) / view.input(0).shape.back(),
                      view.input(0).shape.back()),
        transform_(ops::post_transform_named(view.text("post_transform"))) {}

  void run(KernelContext& context) const override {
    const LinearModel model = coefficients_.model(context);
    const LabelWriter labels(context);
    const float* x = context.input(0).data<float>();
    float* z = context.wants_output(1) ? context.output(1).mutable_data<float>() : nullptr;
    for_rows_of_model(context, model, [&](std::int64_t first, std::int64_t rows) {
      const bool in_place = z != nullptr && model.classes > 1;
      std::vector<float> own(in_place ? 0 : static_cast<std::size_t>(rows * model.classes));
      float* scores = in_place ? z + first * model.classes : own.data();
      HWY_DYNAMIC_DISPATCH(linear_scores)(model, x + first * model.features, rows, scores);
      for (std::int64_t row = 0; row < rows; ++row) {
        const float* own_scores = scores + row * model.classes;
        const bool second = model.classes == 1 && *own_scores > 0;
        labels.set(first + row, second ? 1 : first_largest(own_scores, model.classes));
      }
      if (in_place) transform_rows(scores, rows, model.classes, transform_);
      else if (z != nullptr) write_pairs(scores, rows, z + 2 * first, transform_);
    });
  }

 private:
  LinearCoefficients coefficients_;
  ops::PostTransform transform_;
};

}  // namespace

KernelPointer make_linear_regressor_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<LinearRegressor>(view);
}

KernelPointer make_linear_classifier_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<LinearClassifier>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
