#include "train/evaluation/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "train/evaluation/labelled_predictions.h"
#include "train/evaluation/ranking_metric.h"
#include "train/evaluation/regression_metrics.h"

namespace tessera::train {
namespace {

class TopK final : public Metric {
 public:
  TopK(std::int64_t k, std::int64_t ignore_index) : k_(k), ignore_index_(ignore_index) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    const auto count = [&](bool right) {
      ++counted_;
      right_ += right ? 1 : 0;
    };
    if (k_ == 1 && is_scores(prediction, target)) {
      for_each_score(prediction, target, [&](double score, bool positive) { count((score > 0) == positive); });
      return;
    }
    const Labelled batch(prediction, target, ignore_index_);
    batch.for_each([&](std::int64_t label, auto logit) {
      std::int64_t before = 0;  // classes that rank before the label
      for (std::int64_t c = 0; c < batch.classes(); ++c)
        before += logit(c) > logit(label) || (logit(c) == logit(label) && c < label) ? 1 : 0;
      count(before < k_ && !std::isnan(logit(label)));
    });
  }
  double value() const override {
    return counted_ == 0 ? kNoValue : static_cast<double>(right_) / static_cast<double>(counted_);
  }

 private:
  std::int64_t k_, ignore_index_, right_ = 0, counted_ = 0;
};

class Perplexity final : public Metric {
 public:
  explicit Perplexity(std::int64_t ignore_index) : ignore_index_(ignore_index) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    const Labelled batch(prediction, target, ignore_index_);
    batch.for_each([&](std::int64_t label, auto logit) {
      const double most = logit(batch.largest(logit));
      double sum = 0;
      for (std::int64_t c = 0; c < batch.classes(); ++c) sum += std::exp(logit(c) - most);
      losses_ += most + std::log(sum) - logit(label);
      ++counted_;
    });
  }
  double value() const override { return counted_ == 0 ? kNoValue : std::exp(losses_ / static_cast<double>(counted_)); }

 private:
  std::int64_t ignore_index_, counted_ = 0;
  double losses_ = 0;
};

// Metrics that are computed from each class's numbers of true positives, false positives and false negatives.
class Confusion final : public Metric {
 public:
  struct Counts {
    double true_positives = 0, false_positives = 0, false_negatives = 0;
    double seen() const { return true_positives + false_positives + false_negatives; }
  };
  Confusion(double (*quality)(const Counts&), std::int64_t ignore_index)
      : quality_(quality), ignore_index_(ignore_index) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    if (is_scores(prediction, target)) {
      counts_.resize(std::max<std::size_t>(counts_.size(), 1));
      for_each_score(prediction, target, [&](double score, bool positive) {
        const bool chosen = score > 0;
        if (chosen && positive) ++counts_[0].true_positives;
        if (chosen && !positive) ++counts_[0].false_positives;
        if (!chosen && positive) ++counts_[0].false_negatives;
      });
      return;
    }
    const Labelled batch(prediction, target, ignore_index_);
    counts_.resize(std::max(counts_.size(), static_cast<std::size_t>(batch.classes())));
    batch.for_each([&](std::int64_t label, auto logit) {
      const auto chosen = static_cast<std::size_t>(batch.largest(logit)), right = static_cast<std::size_t>(label);
      if (chosen == right) {
        ++counts_[right].true_positives;
      } else {
        ++counts_[chosen].false_positives;
        ++counts_[right].false_negatives;
      }
    });
  }
  double value() const override {
    double sum = 0, classes = 0;
    for (const Counts& counts : counts_) {
      if (counts.seen() == 0) continue;
      sum += quality_(counts);
      ++classes;
    }
    return classes == 0 ? kNoValue : sum / classes;
  }

 private:
  double (*quality_)(const Counts&);
  std::int64_t ignore_index_;
  std::vector<Counts> counts_;
};

double precision(const Confusion::Counts& counts) {
  const double chosen = counts.true_positives + counts.false_positives;
  return chosen > 0 ? counts.true_positives / chosen : 0;
}
double recall(const Confusion::Counts& counts) {
  const double labelled = counts.true_positives + counts.false_negatives;
  return labelled > 0 ? counts.true_positives / labelled : 0;
}
double f1(const Confusion::Counts& counts) {
  return 2 * counts.true_positives / (counts.true_positives + counts.seen());
}
double intersection_over_union(const Confusion::Counts& counts) {
  return counts.true_positives / counts.seen();
}

struct Entry {
  std::string_view name;
  bool larger_is_better;
  std::unique_ptr<Metric> (*make)(std::int64_t argument, std::int64_t ignore_index);
  bool has_argument = false;
};

constexpr std::array<Entry, 12> kMetrics = {{
    {"accuracy", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> { return std::make_unique<TopK>(1, ignored); }},
    {"top_k", true,
     [](std::int64_t k, std::int64_t ignored) -> std::unique_ptr<Metric> { return std::make_unique<TopK>(k, ignored); },
     true},
    {"auc", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> { return make_area_under_curve(ignored); }},
    {"precision", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Confusion>(precision, ignored);
     }},
    {"recall", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Confusion>(recall, ignored);
     }},
    {"f1", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Confusion>(f1, ignored);
     }},
    {"perplexity", false,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Perplexity>(ignored);
     }},
    {"mean_iou", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Confusion>(intersection_over_union, ignored);
     }},
    {"r2", true, [](std::int64_t, std::int64_t) { return make_regression_metric(Regression::r2); }},
    {"mae", false, [](std::int64_t, std::int64_t) { return make_regression_metric(Regression::mae); }},
    {"mse", false, [](std::int64_t, std::int64_t) { return make_regression_metric(Regression::mse); }},
    {"rmse", false, [](std::int64_t, std::int64_t) { return make_regression_metric(Regression::rmse); }},
}};

const Entry& entry_of(std::string_view description) {
  const std::string_view name = description.substr(0, description.find(':'));
  const auto found = std::ranges::find(kMetrics, name, &Entry::name);
  if (found != kMetrics.end()) return *found;
  std::string names;
  for (const std::string& known : metric_names()) names += (names.empty() ? "" : ", ") + known;
  fail(ErrorKind::invalid_argument, "unknown metric '{}'; there are {}, and loss", description, names);
}

}  // namespace

std::unique_ptr<Metric> make_metric(const std::string& description, std::int64_t ignore_index) {
  const Entry& entry = entry_of(description);
  const std::size_t colon = description.find(':');
  std::int64_t argument = 0;
  if (entry.has_argument) {
    const std::string text = colon == std::string::npos ? "" : description.substr(colon + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), argument);
    require(error == std::errc() && end == text.data() + text.size() && argument > 0, ErrorKind::invalid_argument,
            "metric '{}': expected {}:K with a whole number K of at least 1", description, entry.name);
  } else {
    require(colon == std::string::npos, ErrorKind::invalid_argument, "metric '{}': {} has no argument", description,
            entry.name);
  }
  return entry.make(argument, ignore_index);
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kMetrics) names.emplace_back(entry.name);
  return names;
}

bool larger_is_better(const std::string& description) {
  return entry_of(description).larger_is_better;
}

}  // namespace tessera::train
