#include "train/evaluation/regression_metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "train/evaluation/labelled_predictions.h"

namespace tessera::train {
namespace {

// Sums over one output. The spread of the targets is computed by Welford's method.
struct OutputSums {
  double samples = 0, absolute = 0, squared = 0;
  double mean = 0, spread = 0;  // of the targets

  void add(double prediction, double target) {
    const double difference = prediction - target;
    ++samples;
    absolute += std::abs(difference);
    squared += difference * difference;
    const double before = target - mean;
    mean += before / samples;
    spread += before * (target - mean);
  }

  double value(Regression kind) const {
    if (kind == Regression::mae) return absolute / samples;
    if (kind == Regression::mse) return squared / samples;
    if (kind == Regression::rmse) return std::sqrt(squared / samples);
    if (spread == 0) return squared == 0 ? 1 : 0;
    return 1 - squared / spread;
  }
};

Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

class RegressionMetric final : public Metric {
 public:
  explicit RegressionMetric(Regression kind) : kind_(kind) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    require(without_ones(prediction.shape()) == without_ones(target.shape()), ErrorKind::invalid_argument,
            "the prediction {} and the target {} differ in shape", to_string(prediction.shape()),
            to_string(target.shape()));
    const std::vector<double> predictions = numbers_of(prediction), targets = numbers_of(target);
    if (target.rank() == 0 || target.shape()[0] == 0) return;
    sums_.resize(targets.size() / static_cast<std::size_t>(target.shape()[0]));
    for (std::size_t i = 0; i < targets.size(); ++i) sums_[i % sums_.size()].add(predictions[i], targets[i]);
  }

  double value() const override {
    double sum = 0;
    for (const OutputSums& output : sums_) sum += output.value(kind_);
    return sums_.empty() ? kNoValue : sum / static_cast<double>(sums_.size());
  }

 private:
  Regression kind_;
  std::vector<OutputSums> sums_;
};

}  // namespace

std::unique_ptr<Metric> make_regression_metric(Regression kind) {
  return std::make_unique<RegressionMetric>(kind);
}

}  // namespace tessera::train
