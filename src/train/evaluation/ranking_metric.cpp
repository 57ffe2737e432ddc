#include "train/evaluation/ranking_metric.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "train/evaluation/labelled_predictions.h"

namespace tessera::train {
namespace {

using ScoredLabels = std::vector<std::pair<double, bool>>;

// (Σ ranks of positives − P (P + 1) / 2) / (P N), where equal scores share their mean rank.
double area_under_curve(ScoredLabels sorted) {
  if (std::ranges::any_of(sorted, [](const auto& entry) { return std::isnan(entry.first); })) return kNoValue;
  std::ranges::sort(sorted);
  double ranks = 0, positives = 0;
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    double here = 0;
    for (; end < sorted.size() && sorted[end].first == sorted[begin].first; ++end) here += sorted[end].second ? 1 : 0;
    positives += here;
    ranks += here * (static_cast<double>(begin + end + 1) / 2);
  }
  const double negatives = static_cast<double>(sorted.size()) - positives;
  if (positives == 0 || negatives == 0) return kNoValue;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

class AreaUnderCurve final : public Metric {
 public:
  explicit AreaUnderCurve(std::int64_t ignore_index) : ignore_index_(ignore_index) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    if (is_scores(prediction, target)) {
      scores_.resize(1);
      for_each_score(prediction, target,
                     [&](double score, bool positive) { scores_[0].emplace_back(score, positive); });
      return;
    }
    const Labelled batch(prediction, target, ignore_index_);
    scores_.resize(static_cast<std::size_t>(batch.classes()));
    std::vector<double> exponentials(scores_.size());
    batch.for_each([&](std::int64_t label, auto logit) {
      const double most = logit(batch.largest(logit));
      double sum = 0;
      for (std::int64_t c = 0; c < batch.classes(); ++c)
        sum += exponentials[static_cast<std::size_t>(c)] = std::exp(logit(c) - most);
      for (std::size_t c = 0; c < scores_.size(); ++c)
        scores_[c].emplace_back(exponentials[c] / sum, static_cast<std::int64_t>(c) == label);
    });
  }

  double value() const override {
    double sum = 0, classes = 0;
    for (const ScoredLabels& of_class : scores_) {
      const bool any = std::ranges::any_of(of_class, &std::pair<double, bool>::second);
      if (!any || std::ranges::all_of(of_class, &std::pair<double, bool>::second)) continue;
      sum += area_under_curve(of_class);
      ++classes;
    }
    return classes == 0 ? kNoValue : sum / classes;
  }

 private:
  std::int64_t ignore_index_;
  std::vector<ScoredLabels> scores_;  // one list per class, or a single one of scores
};

}  // namespace

std::unique_ptr<Metric> make_area_under_curve(std::int64_t ignore_index) {
  return std::make_unique<AreaUnderCurve>(ignore_index);
}

}  // namespace tessera::train
