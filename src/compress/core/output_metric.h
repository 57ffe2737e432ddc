// A number for the quality of a model's outputs on the user's data.
#pragma once

#include <optional>
#include <string>

#include "compress/quantise/calibration_samples.h"

namespace tessera::compress {

class OutputMetric {
 public:
  // `name`, as QuantiseOptions::metric has it:
  //   agreement    the share of positions whose largest score stays in its place, along the axis of the classes; of
  //                integer outputs the share of equal elements
  //   cosine, snr  of the outputs to those of `reference`: their cosine, and the signal-to-noise ratio in decibels
  //   a metric of trainings (train/evaluation/metrics.h), which needs labels
  //   command:…    a shell command, or a path with a slash: it gets the path of an .npz file and prints one number
  // Empty: accuracy where the data have labels that are classes; r2 where each score has a number as its label; with
  // other labels cosine, and a warning that they are passed over; without labels agreement where the outputs are scores
  // of classes, and cosine where they are not. Of outputs that are integers alone, agreement instead of cosine.
  // Throws Error(invalid_argument): an unknown name, a metric that does not fit the labels or the outputs.
  OutputMetric(std::string name, const Model& reference, const CalibrationData& data, const SessionOptions& session);
  const std::string& name() const { return name_; }
  // Throws Error: failed where a command fails or prints no number.
  double of(const Model& model) const;

 private:
  double of_training(const Model& model) const;
  double beside_reference(const Model& model) const;
  double command(const Model& model) const;

  std::string name_;
  const Model& reference_;
  CalibrationData data_;
  SessionOptions session_;
  std::optional<std::size_t> class_axis_;  // of agreement
};

// Throws Error(invalid_argument), which lists the names, for a name that OutputMetric does not take.
void check_metric_name(const std::string& name);

// Whether the data have labels.
bool has_labels(const Model& model, const CalibrationData& data);

// By how much a metric becomes worse from one model to another; negative where it becomes better. Larger is better but
// for those metrics of trainings of which smaller is.
double metric_drop(const std::string& name, double before, double after);

}  // namespace tessera::compress
