// Compares a model's outputs with those of another one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compress/quantise/calibration_samples.h"

namespace tessera::compress {

// Makes the random operators of models that are compared draw the same numbers.
inline const RunOptions kSameNumbers{.seed = 0};

// Sums over pairs of outputs; the first of a pair is the signal, and the difference is the noise.
struct OutputPowers {
  double signal = 0, noise = 0, other = 0, product = 0;

  void add(const Tensor& a, const Tensor& b);
  // Infinite if nothing differs, -infinity if a value is not finite.
  double snr_db() const;
  double cosine() const;
};
using PowersByOutput = std::map<std::string, OutputPowers>;
// Adds the powers of each float32 output to those of its name.
void add_powers(PowersByOutput& powers, const NamedValues& a, const NamedValues& b);
// The lowest signal-to-noise ratio of the outputs, in decibels.
double lowest_snr_db(const PowersByOutput& powers);

// A model's outputs on samples that are spread over the data, as a reference for other models.
class ReferenceOutputs {
 public:
  // Runs the model on about `most_samples` samples. If that is 0, on 32 to 512 of them: more, the less a run computes.
  // Keeps at most 128 MiB of inputs and outputs. Throws Error as read_samples does.
  ReferenceOutputs(const Model& model, const CalibrationData& data, const SessionOptions& session,
                   std::int64_t most_samples);
  // The lowest signal-to-noise ratio of the other model's outputs.
  double snr_db_of(const Model& other) const;
  std::int64_t samples() const { return count_; }
  bool has_all() const { return count_ == all_; }

 private:
  SessionOptions session_;
  std::vector<NamedValues> samples_, outputs_;
  std::int64_t count_ = 0, all_ = 0;
};

struct OutputSnr {
  double snr_db = 0;
  std::int64_t samples = 0;
};
// Compares the outputs on all samples of the data, using those of the reference if it has all of them.
OutputSnr compare_outputs(const ReferenceOutputs& reference, const Model& before, const Model& after,
                          const CalibrationData& data, const SessionOptions& session);

}  // namespace tessera::compress
