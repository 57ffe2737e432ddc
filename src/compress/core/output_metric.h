// Measures the quality of a model's outputs on the user's data, as one number.
#pragma once

#include <optional>
#include <string>

#include "compress/quantise/calibration_samples.h"

namespace tessera::compress {

class OutputMetric {
 public:
  // `name`, as in QuantiseOptions::metric, is one of these:
  //   agreement    the fraction of positions at which the class of the largest score is that of `reference`, along the
  //                axis of the classes; for integer outputs, the fraction of equal elements
  //   cosine, snr  compare the outputs with those of `reference`: the cosine, or the signal-to-noise ratio in decibels
  //   a metric of trainings (train/evaluation/metrics.h), which needs labels
  //   command:…    a shell command, or a path with a slash: it gets the path of an .npz file and prints one number
  // If it is empty, the metric is chosen: accuracy if the data have labels that are classes; r2 if each score has a
  // number as its label; with other labels cosine, and a warning that the labels are ignored; without labels agreement
  // if the outputs are scores of classes, and else cosine. If all outputs are integers, agreement takes the place of
  // cosine. Throws Error(invalid_argument) for an unknown name, and for a metric that does not fit the labels or the
  // outputs.
  OutputMetric(std::string name, const Model& reference, const CalibrationData& data, const SessionOptions& session);
  const std::string& name() const { return name_; }
  // Throws Error(failed) if a command fails or prints no number.
  double of(const Model& model) const;

 private:
  double of_training(const Model& model) const;
  double beside_reference(const Model& model) const;
  double command(const Model& model) const;

  std::string name_;
  const Model& reference_;
  CalibrationData data_;
  SessionOptions session_;
  std::optional<std::size_t> class_axis_;  // for agreement
};

// Throws Error(invalid_argument), which lists the names, for a name that OutputMetric does not accept.
void check_metric_name(const std::string& name);

// Whether the data have labels.
bool has_labels(const Model& model, const CalibrationData& data);

// How much worse the metric of the second model is; negative if it is better. Larger is better, except for the metrics
// of trainings for which smaller is.
double metric_drop(const std::string& name, double before, double after);

}  // namespace tessera::compress
