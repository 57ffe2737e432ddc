#include "backends/host/forest_scores.h"

#include <algorithm>

#include "backends/host/class_scores.h"

namespace tessera::backends::host {

ForestScores::ForestScores(const ops::Forest& forest, ScorePrecision rounded)
    : base_values_(forest.base_values), transform_(forest.post_transform), rounded_(rounded) {
  std::vector<bool> spoken(static_cast<std::size_t>(forest.targets), false);
  for (const ops::Forest::Vote& vote : forest.votes) {
    spoken[static_cast<std::size_t>(vote.target)] = true;
    all_positive_ = all_positive_ && vote.weight >= 0;
  }
  const std::int64_t known = std::count(spoken.begin(), spoken.end(), true);
  if (forest.targets == 2 && known == 1) only_class_ = spoken[0] ? 0 : 1;
  base_values_.resize(std::min(base_values_.size(), spoken.size()));
  std::ranges::transform(base_values_, base_values_.begin(), rounded_);
}

void ForestScores::finish(std::span<double> scores) const {
  add_base(scores);
  transform_scores(scores, transform_);
}

// If leaves vote for only one of two classes, a threshold decides: 0.5 for weights that look like probabilities, else
// 0.
std::size_t ForestScores::classify(std::span<double> scores, std::span<const std::uint8_t> voted) const {
  add_base(scores);
  if (only_class_ >= 0) return classify_by_threshold(scores);
  // Classes without votes cannot win, unless no class has votes. A class with a base value can win even without votes.
  const auto takes_part = [&](std::size_t i) { return i < base_values_.size() || voted[i] != 0; };
  std::size_t winner = 0;
  for (std::size_t i = 1; i < scores.size(); ++i) {
    const bool part = takes_part(i);
    if (part == takes_part(winner) ? scores[i] > scores[winner] : part) winner = i;
  }
  transform_scores(scores, transform_);
  return winner;
}

// With class 0 alone, its score is taken as that of class 1, and class 0 gets the rest (of 1 for probabilities, of 0
// otherwise). The specification leaves the transform of such a pair open; as in onnxruntime, softmax leaves it
// unchanged.
std::size_t ForestScores::classify_by_threshold(std::span<double> scores) const {
  using ops::PostTransform;
  const double score = scores[static_cast<std::size_t>(only_class_)];
  const std::size_t winner = score > (all_positive_ ? 0.5 : 0) ? 1 : 0;
  if (only_class_ == 0) {
    const bool of_one = all_positive_ && transform_ != PostTransform::logistic;
    scores[0] = of_one ? rounded_(1 - score) : -score;
    scores[1] = score;
    if (transform_ == PostTransform::softmax || transform_ == PostTransform::softmax_zero) return winner;
  }
  transform_scores(scores, transform_);
  return winner;
}

void ForestScores::add_base(std::span<double> scores) const {
  for (std::size_t i = 0; i < base_values_.size(); ++i) scores[i] = rounded_(scores[i] + base_values_[i]);
}

}  // namespace tessera::backends::host
