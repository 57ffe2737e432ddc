#include "train/evaluation/class_counts.h"

#include "train/evaluation/labelled_predictions.h"

namespace tessera::train {
namespace {

std::optional<double> quotient(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void ClassCounts::add(const Tensor& prediction, const Tensor& target) {
  const auto begin = [&](std::int64_t classes) {
    classes_ = classes;
    counts_.resize(static_cast<std::size_t>(classes * classes));
  };
  if (is_scores(prediction, target)) {
    begin(2);
    for_each_score(prediction, target,
                   [&](double score, bool positive) { count(positive ? 1 : 0, score > 0 ? 1 : 0); });
    return;
  }
  const Labelled batch(prediction, target, ignore_index_);
  if (batch.classes() > kMostClasses) return;
  begin(batch.classes());
  batch.for_each([&](std::int64_t label, auto logit) { count(label, batch.largest(logit)); });
}

std::optional<ClassReport> ClassCounts::report(const std::vector<std::string>& names) const {
  if (classes_ == 0) return std::nullopt;
  ClassReport report;
  report.confusion = counts_;
  for (std::int64_t c = 0; c < classes_; ++c) {
    std::int64_t labels = 0, predictions = 0;
    for (std::int64_t other = 0; other < classes_; ++other) {
      labels += counts_[static_cast<std::size_t>(c * classes_ + other)];
      predictions += counts_[static_cast<std::size_t>(other * classes_ + c)];
    }
    const std::int64_t right = counts_[static_cast<std::size_t>(c * classes_ + c)];
    const auto place = static_cast<std::size_t>(c);
    report.classes.push_back({place < names.size() ? names[place] : std::to_string(c), quotient(right, predictions),
                              quotient(right, labels), quotient(2 * right, labels + predictions), labels});
  }
  return report;
}

}  // namespace tessera::train
