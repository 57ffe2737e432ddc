// What the labels of calibration data are to a model's scores.
#pragma once

#include <optional>
#include <string>

#include "compress/quantise/calibration_samples.h"

namespace tessera::compress {

struct LabelKind {
  bool any = false, classes = false;
  std::string against;  // why they are no classes
  // Why they are no numbers that the scores are held against, one for each element; empty where they are.
  std::string against_numbers;
  std::optional<std::size_t> class_axis;  // of the scores, where the labels' shape tells it
};

// Labels are classes where they are whole numbers of the scores' shape without an axis, below its size (or -100, which
// counts for nothing); or as many as there are scores, each 0 or 1. Looks at up to 4096 samples, and runs the model.
LabelKind kind_of_labels(const Model& model, const CalibrationData& data, const SessionOptions& session);

// The first output of float32 that is no single number, or null.
const Tensor* scores_of(const Model& model, const NamedValues& outputs);

}  // namespace tessera::compress
