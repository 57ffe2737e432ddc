#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "serve/core/steps/step.h"

namespace tessera::serve {
namespace {

class LabelsStep final : public PipelineStep {
 public:
  explicit LabelsStep(StepSource source)
      : output_(output_of(source, "output", DType::f32).name),
        top_(source.settings.whole("top", 5, 1, 100'000)),
        softmax_(source.settings.boolean("softmax", false)) {
    const std::string file = source.settings.text("labels");
    if (!file.empty()) labels_ = lines_of(source, file);
    source.settings.check_all_read();
  }

  std::vector<TensorInfo> inputs() const override { return {{output_, DType::f32, {-1, -1}}}; }
  std::vector<TensorInfo> outputs() const override {
    return {{"label", DType::string, {-1, -1}}, {"score", DType::f32, {-1, -1}}};
  }

  NamedValues run(Job&, const NamedValues& values, const Cancellation&) override {
    const Tensor& scores = values.find(output_)->second.tensor();
    const std::int64_t rows = scores.rank() > 1 ? scores.shape()[0] : 1;
    const std::int64_t classes = scores.elements() / std::max<std::int64_t>(rows, 1);
    const std::int64_t top = std::min(top_, classes);
    Tensor label(DType::string, {rows, top}), score(DType::f32, {rows, top});
    for (std::int64_t row = 0; row < rows; ++row)
      take(scores.values<float>().subspan(static_cast<std::size_t>(row * classes), static_cast<std::size_t>(classes)),
           label.mutable_values<std::string>().subspan(static_cast<std::size_t>(row * top)),
           score.mutable_values<float>().subspan(static_cast<std::size_t>(row * top)), top);
    NamedValues made;
    made.emplace("label", std::move(label));
    made.emplace("score", std::move(score));
    return made;
  }

 private:
  // The best of one row; NaN counts as the least score.
  void take(std::span<const float> scores, std::span<std::string> labels, std::span<float> best,
            std::int64_t top) const {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [&](std::size_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
    std::ranges::partial_sort(order, order.begin() + top,
                              [&](std::size_t a, std::size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    double sum = 0;
    if (softmax_) {
      for (const float score : scores) sum += std::exp(static_cast<double>(score) - static_cast<double>(key(order[0])));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(top); ++i) {
      const std::size_t at = order[i];
      labels[i] = at < labels_.size() ? labels_[at] : std::to_string(at);
      best[i] = !softmax_ ? scores[at]
                          : static_cast<float>(
                                std::exp(static_cast<double>(scores[at]) - static_cast<double>(key(order[0]))) / sum);
    }
  }

  const std::string output_;
  const std::int64_t top_;
  const bool softmax_;
  std::vector<std::string> labels_;
};

}  // namespace

std::unique_ptr<PipelineStep> make_labels_step(StepSource source) {
  return std::make_unique<LabelsStep>(std::move(source));
}

}  // namespace tessera::serve
