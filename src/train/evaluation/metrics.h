// Metrics of predictions, computed on the host from a data set's predictions, batch by batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::train {

class Metric {
 public:
  virtual ~Metric() = default;
  // Adds the predictions and targets of one batch. Predictions are f32, f64, f16 or bf16, targets integers, bool or
  // floats. Throws Error(invalid_argument) for shapes that do not fit and labels that are no class.
  virtual void add(const Tensor& prediction, const Tensor& target) = 0;
  // The metric over everything that was added; NaN if nothing counts.
  virtual double value() const = 0;
};

// Makes a metric from its description. Logits are [N, classes, d...] or [N, d..., classes] with labels [N, d...];
// labels of `ignore_index` do not count. Scores, one per sample ([N], [N, 1], or any shape that the target has too),
// are those of the positive class, and targets above 0.5 are positive.
//   accuracy     the fraction of labels that have the largest logit, or of scores on the right side of 0
//   top_k:K      the fraction of labels that are among the K largest logits
//   auc          the area under the ROC curve (train/evaluation/ranking_metric.h)
//   precision    TP / (TP + FP), recall: TP / (TP + FN), f1: 2 TP / (2 TP + FP + FN); the unweighted mean over the
//                classes that occur in predictions or labels ("macro") with 0 / 0 = 0, or that of the positive class
//   perplexity   exp of the mean of −log softmax(logits)[label]
//   mean_iou     TP / (TP + FP + FN), mean over the classes that occur in predictions or labels
//   r2, mae, mse, rmse  for numbers (train/evaluation/regression_metrics.h)
// The first of several equal logits counts as the largest. Throws Error(invalid_argument) that lists the names.
std::unique_ptr<Metric> make_metric(const std::string& description, std::int64_t ignore_index = -100);

std::vector<std::string> metric_names();
// Whether larger values are better. Throws as make_metric does.
bool larger_is_better(const std::string& description);

}  // namespace tessera::train
