// The sizes of a training step by which the simulator of scaling knows a net, and one measured training to calibrate
// by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::dist {

// A training that was measured. The time of a sample follows from it.
struct MeasuredTraining {
  std::int64_t gpus = 0, batch = 0;
  double epochs = 0, seconds = 0;
};

// How a sample that several GPUs of a node compute together is divided (spatial parallelism).
struct SpatialSplit {
  double serial_share = 0;     // of the arithmetic: layers that every GPU of the group computes whole
  std::int64_t exchanges = 0;  // of borders in a step, forward and backward
  double exchange_bytes = 0;   // of one exchange, for each sample
};

struct TrainingProfile {
  std::string title;
  std::vector<std::string> sources;
  double parameters = 0;             // that all GPUs hold, and whose gradients they sum
  double gradient_bytes = 2;         // for each parameter
  double update_bytes = 20;          // moved by the optimiser for each parameter
  double kernels = 0;                // that run one after the other in a step, forward, backward and update
  double recurrent_steps = 0;        // likewise, of recurrences
  double exchange_bytes = 0;         // for each sample and direction, in an all-to-all (of embeddings)
  double epoch_samples = 0;          // samples of an epoch; an epoch has whole steps
  double operations_per_sample = 0;  // forward and backward; a multiply-add counts two. 0: not known
  std::int64_t most_gpu_batch = 0;   // samples that a GPU computes at once; more are accumulated
  std::optional<SpatialSplit> spatial;
  std::optional<MeasuredTraining> measured;  // exactly one of these two is there
  std::optional<double> sample_seconds;      // the time of a sample beyond that of the kernels' least times

  double all_gradient_bytes() const { return parameters * gradient_bytes; }
};

// Parses TOML text; `where` names it in errors. Throws Error(invalid_argument) that says what is missing or wrong.
TrainingProfile parse_training_profile(std::string_view text, const std::string& where);

}  // namespace tessera::dist
