// How good a model's outputs are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compress/calibration_samples.h"

namespace tessera::compress {

// In decibel, the outputs of the first as signal: of all outputs of float32, the lowest. Infinite where nothing
// differs, -infinity where one is not finite.
double output_snr_db(const std::vector<NamedValues>& signal, const std::vector<NamedValues>& other);

// Outputs of a model on the first samples of the data, against which other models are held.
class ReferenceOutputs {
 public:
  // Runs the model on at most `most_samples` samples (whole batches), and keeps at most 128 MiB of inputs and outputs.
  // Throws Error as read_samples does.
  ReferenceOutputs(const Model& model, const CalibrationData& data, const SessionOptions& session,
                   std::int64_t most_samples);
  // output_snr_db of the other model's outputs.
  double snr_db_of(const Model& other) const;

 private:
  SessionOptions session_;
  std::vector<NamedValues> samples_, outputs_;
};

class OutputMetric {
 public:
  // Names as QuantiseOptions::metric has them. Throws Error(invalid_argument) for accuracy without labels.
  OutputMetric(std::string name, const Model& reference, const CalibrationData& data, const SessionOptions& session);
  const std::string& name() const { return name_; }
  // Larger is better. Throws Error: failed where a command fails or prints no number.
  double of(const Model& model) const;

 private:
  bool is_built_in() const;
  double command(const Model& model) const;

  std::string name_;
  const Model& reference_;
  CalibrationData data_;
  SessionOptions session_;
};

}  // namespace tessera::compress
