// How close a model's outputs are to those of another one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compress/quantise/calibration_samples.h"

namespace tessera::compress {

// Models that are compared draw the same random numbers.
inline const RunOptions kSameNumbers{.seed = 0};

// Sums over pairs of outputs, of which the first is the signal.
struct OutputPowers {
  double signal = 0, noise = 0, other = 0, product = 0;

  void add(const Tensor& a, const Tensor& b);
  // Infinite where nothing differs, -infinity where one is not finite.
  double snr_db() const;
  double cosine() const;
};
using PowersByOutput = std::map<std::string, OutputPowers>;
// By output, for those of float32.
void add_powers(PowersByOutput& powers, const NamedValues& a, const NamedValues& b);
// The lowest signal-to-noise ratio of the outputs, in decibels.
double lowest_snr_db(const PowersByOutput& powers);

// Outputs of a model on samples that are spread over the data, against which other models are held.
class ReferenceOutputs {
 public:
  // Runs the model on about `most_samples` samples, or, for 0, on 32 to 512 of them, the more the less a run computes.
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
// Over all samples of the data, which are those of the reference where it has all.
OutputSnr compare_outputs(const ReferenceOutputs& reference, const Model& before, const Model& after,
                          const CalibrationData& data, const SessionOptions& session);

}  // namespace tessera::compress
