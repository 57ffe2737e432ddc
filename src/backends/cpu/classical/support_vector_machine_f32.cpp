// SVMClassifier and SVMRegressor of float32 rows.
#include <algorithm>

#include "backends/cpu/classical/kernels.h"
#include "backends/cpu/classical/label_writer.h"
#include "backends/cpu/classical/support_vectors_f32.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/host/pair_scores.h"

namespace tessera::backends::cpu {
namespace {

// Multiplications per chunk.
constexpr std::int64_t kVectorGrain = 512 * 1024;

const std::vector<float>& reals_or_none(const ops::AttributeReader& reader, std::string_view name) {
  static const std::vector<float> none;
  return reader.has_attribute(name) ? reader.reals(name) : none;
}

// The segments of a regressor: all vectors add to one score.
std::vector<VectorSegment> regressor_segments(const ops::NodeView&, const ops::SvmPlan& plan,
                                              const float* coefficients) {
  return {{0, plan.vectors, coefficients, 0}};
}

// The segments of a classifier. Row r of the coefficients holds those of class i for its pair with class r, or with
// class r + 1 if r >= i.
std::vector<VectorSegment> classifier_segments(const ops::NodeView& view, const ops::SvmPlan& plan,
                                               const float* coefficients) {
  std::vector<VectorSegment> segments;
  const std::vector<std::int64_t> per_class = view.integers_or_empty("vectors_per_class");
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < plan.classes; ++i) {
    const std::int64_t count = per_class[static_cast<std::size_t>(i)];
    for (std::int64_t r = 0; r + 1 < plan.classes && count > 0; ++r) {
      const std::int64_t low = std::min(i, r), high = std::max(i, r + 1);
      // Pairs are numbered (0, 1), (0, 2) … (1, 2) …
      const std::int64_t pair = low * (2 * plan.classes - low - 1) / 2 + high - low - 1;
      segments.push_back({first, count, coefficients + r * plan.vectors + first, pair});
    }
    first += count;
  }
  return segments;
}

using SegmentsOf = std::vector<VectorSegment> (*)(const ops::NodeView&, const ops::SvmPlan&, const float*);

class VectorMachine : public Kernel {
 public:
  VectorMachine(const ops::NodeView& view, SegmentsOf segments_of)
      : plan_(ops::read_svm(view, view.input(0).shape.back())),
        rows_(view.input(0).shape.size() == 2 ? view.input(0).shape[0] : 1),
        coefficients_(view.reals("coefficients")),
        rho_(view.reals("rho").begin(), view.reals("rho").end()),
        transform_(ops::post_transform_named(view.text("post_transform"))),
        vectors_(plan_, reals_or_none(view, "support_vectors"), view.input(0).shape.back(),
                 segments_of(view, plan_, coefficients_.data()), static_cast<std::int64_t>(rho_.size())) {}

  // Calls body(first row, scores row by row, rows) for chunks of rows.
  template <typename Body>
  void for_scores(const KernelContext& context, const Body& body) const {
    const float* x = context.input(0).data<float>();
    // Rows per chunk: a few whole tiles.
    const std::int64_t grain = std::max<std::int64_t>(1, kVectorGrain / (vectors_.cost() + 64) / 8) * 8;
    context.parallel_for(rows_, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> scores;
      scores.reserve(static_cast<std::size_t>(end - begin) * rho_.size());
      for (std::int64_t row = begin; row < end; ++row) scores.insert(scores.end(), rho_.begin(), rho_.end());
      vectors_.add_scores(x + begin * vectors_.features(), end - begin, scores.data());
      body(begin, scores.data(), end - begin);
    });
  }

 protected:
  ops::SvmPlan plan_;
  std::int64_t rows_;
  std::vector<float> coefficients_;
  std::vector<double> rho_;
  ops::PostTransform transform_;
  SupportVectors vectors_;
};

class VectorRegressor final : public VectorMachine {
 public:
  explicit VectorRegressor(const ops::NodeView& view)
      : VectorMachine(view, regressor_segments), one_class_(view.integer("one_class") != 0) {}

  void run(KernelContext& context) const override {
    float* y = context.output(0).mutable_data<float>();
    for_scores(context, [&](std::int64_t first, double* scores, std::int64_t rows) {
      for (std::int64_t i = 0; i < rows; ++i) {
        double score = scores[i];
        if (one_class_) score = score > 0 ? 1 : -1;
        host::transform_scores(std::span<double>(&score, 1), transform_);
        y[first + i] = static_cast<float>(score);
      }
    });
  }

 private:
  bool one_class_;
};

class VectorClassifier final : public VectorMachine {
 public:
  explicit VectorClassifier(const ops::NodeView& view) : VectorMachine(view, classifier_segments) {
    const std::vector<float>&a = reals_or_none(view, "prob_a"), &b = reals_or_none(view, "prob_b");
    a_.assign(a.begin(), a.end());
    b_.assign(b.begin(), b.end());
  }

  void run(KernelContext& context) const override {
    const LabelWriter labels(context);
    float* z = context.wants_output(1) ? context.output(1).mutable_data<float>() : nullptr;
    for_scores(context, [&](std::int64_t first, const double* scores, std::int64_t rows) {
      std::vector<double> row;
      for (std::int64_t i = 0; i < rows; ++i) {
        row.assign(scores + i * pairs(), scores + (i + 1) * pairs());
        labels.set(first + i, winner(row));
        if (z != nullptr) write_scores(row, z, first + i);
      }
    });
  }

 private:
  std::int64_t pairs() const { return static_cast<std::int64_t>(rho_.size()); }

  // The class with the most votes, or the first of those that tie.
  std::size_t winner(const std::vector<double>& scores) const {
    const auto classes = static_cast<std::size_t>(plan_.classes);
    std::vector<std::int64_t> votes(classes, 0);
    std::size_t pair = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      for (std::size_t j = i + 1; j < classes; ++j, ++pair) votes[scores[pair] > 0 ? i : j] += 1;
    }
    return static_cast<std::size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
  }

  void write_scores(std::vector<double>& scores, float* z, std::int64_t row) const {
    if (plan_.probabilities)
      scores = host::probabilities_of_pairs(static_cast<std::size_t>(plan_.classes), scores, a_, b_);
    if (scores.size() > 1) host::transform_scores(scores, transform_);
    else if (transform_ == ops::PostTransform::none) scores = {-scores[0], scores[0]};
    else scores = host::scores_of_pair(scores[0], transform_);
    float* to = z + row * static_cast<std::int64_t>(scores.size());
    std::transform(scores.begin(), scores.end(), to, [](double score) { return static_cast<float>(score); });
  }

  std::vector<double> a_, b_;
};

}  // namespace

std::string reject_support_vectors(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  return ops::read_svm(view, view.input(0).shape.back()).vectors > 0 ? "" : "wants support vectors";
}

KernelPointer make_svm_regressor_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<VectorRegressor>(view);
}

KernelPointer make_svm_classifier_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<VectorClassifier>(view);
}

}  // namespace tessera::backends::cpu
