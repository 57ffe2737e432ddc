// Predictions of classes or scores paired with their labels, as metrics of classes need them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "tessera/tensor.h"

namespace tessera::train {

// The value of a metric over no data.
inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// The elements of a tensor of floats, integers or bool. Throws Error(invalid_argument) for other types.
std::vector<double> numbers_of(const Tensor& tensor);

// Whether each element of the prediction is an independent score: it has as many elements as the target, and no axis of
// classes.
bool is_scores(const Tensor& prediction, const Tensor& target);

// Logits with the correct class for each position.
class Labelled {
 public:
  // Logits are [N, classes, d...] or [N, d..., classes] with labels [N, d...]. Throws Error(invalid_argument) for other
  // shapes.
  Labelled(const Tensor& prediction, const Tensor& target, std::int64_t ignore_index);

  std::int64_t classes() const { return classes_; }

  // Calls use(label, logit) for each label that is not ignored, where logit(c) is the logit of class c. Throws
  // Error(invalid_argument) for a label that is no class.
  template <typename Use>
  void for_each(Use use) const {
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      const auto label = static_cast<std::int64_t>(labels_[i]);
      if (label == ignore_index_) continue;
      require(label >= 0 && label < classes_, ErrorKind::invalid_argument, "the label {} is no class: there are {}",
              label, classes_);
      const std::int64_t position = static_cast<std::int64_t>(i);
      const double* from = logits_.data() + position / inner_ * inner_ * classes_ + position % inner_;
      use(label, [from, this](std::int64_t c) { return from[c * inner_]; });
    }
  }

  // The class of the largest logit; the first one of equal logits.
  template <typename Logit>
  std::int64_t largest(Logit logit) const {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes_; ++c) {
      if (logit(c) > logit(best)) best = c;
    }
    return best;
  }

 private:
  std::vector<double> logits_, labels_;
  std::int64_t ignore_index_, classes_ = 0, inner_ = 1;
};

// Calls use(score, is_positive) for each score and its target.
template <typename Use>
void for_each_score(const Tensor& prediction, const Tensor& target, Use use) {
  const std::vector<double> scores = numbers_of(prediction), targets = numbers_of(target);
  for (std::size_t i = 0; i < scores.size(); ++i) use(scores[i], targets[i] > 0.5);
}

}  // namespace tessera::train
