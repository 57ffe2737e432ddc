// How long a training takes on many GPUs: steps × time of a step, for the best batch of a convergence table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/convergence.h"
#include "dist/scaling/all_reduce.h"
#include "dist/scaling/cluster_profile.h"
#include "dist/scaling/training_profile.h"

namespace tessera::dist {

// The first bucket of gradients is small, so that its sum begins early; the others follow in the order of the backward
// pass.
inline constexpr double kFirstBucketBytes = 1e6, kBucketBytes = 25e6;
// The part of a step's arithmetic that the backward pass does.
inline constexpr double kBackwardShare = 2.0 / 3;

struct ScalingOptions {
  std::optional<AllReduceAlgorithm> all_reduce;  // the fastest unless given
  bool capture = true;                           // steps are captured once and replayed, so the host launches nothing
  std::int64_t evaluators = 0;                   // GPUs of the cluster that evaluate and do not train
};

struct StepTime {
  std::int64_t gpu_batch = 0;      // samples that a GPU, or a group of `split` GPUs, computes in a step
  std::int64_t micro_batches = 1;  // in which it computes them
  std::int64_t split = 1;          // GPUs that compute a sample together
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::ring;
  double compute_seconds = 0;     // forward and backward, with exchanges of borders
  double exchange_seconds = 0;    // all-to-all of embeddings, there and back
  double exposed_seconds = 0;     // the sum of gradients that the backward pass does not hide
  double all_reduce_seconds = 0;  // the whole sum of gradients
  double update_seconds = 0;

  double seconds() const { return compute_seconds + exchange_seconds + exposed_seconds + update_seconds; }
};

// A net on a cluster, with the time of a sample: that of the profile, or the one with which the measured training takes
// as long as was measured.
class ScalingModel {
 public:
  // Throws Error(invalid_argument) if the measured training is shorter than its parts that do not depend on the batch,
  // or faster than the device's peak.
  ScalingModel(TrainingProfile profile, ClusterProfile cluster);

  // The time of a step, or nothing if the batch has too few samples for so many GPUs. Throws Error(invalid_argument)
  // for a number of GPUs beyond one node that does not fill whole nodes, and for evaluators that leave no GPU.
  std::optional<StepTime> step(std::int64_t gpus, std::int64_t batch, const ScalingOptions& options = {}) const;
  // Steps of a training: whole ones in each epoch, whose last batch is filled up.
  double steps(std::int64_t batch, double epochs) const;
  double sample_seconds() const { return sample_seconds_; }
  // The share of the peak in float16 that a GPU achieves on a large batch; 0 if the operations are not known.
  double peak_share() const;
  const TrainingProfile& profile() const { return profile_; }
  const ClusterProfile& cluster() const { return cluster_; }

 private:
  StepTime step_with(double sample_seconds, std::int64_t gpus, std::int64_t batch, std::int64_t split,
                     const ScalingOptions& options) const;
  double compute_seconds(double sample_seconds, double samples, const StepTime& step, bool capture) const;
  void sum_gradients(StepTime& step, std::int64_t gpus, const ScalingOptions& options) const;
  double calibrated() const;

  TrainingProfile profile_;
  ClusterProfile cluster_;
  double sample_seconds_ = 0;
};

struct ScalingPoint {
  std::int64_t gpus = 0;
  // The fastest batch of the table, and its training; nothing if every batch of the table is too small.
  struct Training {
    std::int64_t batch = 0;
    double epochs = 0, steps = 0, seconds = 0;
    StepTime step;
  };
  std::optional<Training> training;
};

// The trainings on each number of GPUs, in that order. Throws Error(invalid_argument) as ScalingModel::step does, for a
// table with a batch twice or with more than 1000 batches, and if no point has a training.
std::vector<ScalingPoint> simulate_scaling(const ScalingModel& model, const std::vector<std::int64_t>& gpus,
                                           std::vector<cost::ConvergencePoint> table,
                                           const ScalingOptions& options = {});

// Parses "8", "1..4096" (doubling from the first number, and the last one), and lists of both such as "1..64,104".
// Throws Error(invalid_argument).
std::vector<std::int64_t> parse_gpu_counts(std::string_view text);

}  // namespace tessera::dist
