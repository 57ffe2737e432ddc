// Tells whether the labels of calibration data are classes or numbers for a model's scores.
#pragma once

#include <optional>
#include <string>

#include "compress/quantise/calibration_samples.h"

namespace tessera::compress {

struct LabelKind {
  bool any = false, classes = false;
  std::string against;  // why they are no classes
  // Why they are not one number for each score, to compare the scores with; empty if they are.
  std::string against_numbers;
  std::optional<std::size_t> class_axis;  // of the scores, if the labels' shape determines it
};

// Labels are classes if they are whole numbers in the scores' shape without one axis, and less than that axis's size
// (or -100, which is ignored); or if there are as many as scores, each 0 or 1. Looks at up to 4096 samples, and runs
// the model.
LabelKind kind_of_labels(const Model& model, const CalibrationData& data, const SessionOptions& session);

// The first float32 output of rank 1 or more, or null.
const Tensor* scores_of(const Model& model, const NamedValues& outputs);

}  // namespace tessera::compress
