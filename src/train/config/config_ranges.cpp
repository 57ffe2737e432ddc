// Checks the ranges of a training's numbers, for configurations from files and from programs alike.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "train/config/config.h"

namespace tessera::train {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::max();

// Throws unless the number is from `least` to `most`.
void check(const char* key, double value, double least, double most = kNoLimit) {
  if (std::isfinite(value) && value >= least && value <= most) return;
  if (most == kNoLimit)
    fail(ErrorKind::invalid_argument, "{} is {}, expected a finite number of at least {}", key, value, least);
  fail(ErrorKind::invalid_argument, "{} is {}, expected a number from {} to {}", key, value, least, most);
}

// Throws unless the number is from 0 to below 1.
void check_share(const char* key, double value) {
  require(value >= 0 && value < 1, ErrorKind::invalid_argument, "{} is {}, expected a number in [0, 1)", key, value);
}

void check_positive(const char* key, double value) {
  require(std::isfinite(value) && value > 0, ErrorKind::invalid_argument, "{} is {}, expected a positive number", key,
          value);
}

void check(const char* key, std::int64_t value, std::int64_t least) {
  require(value >= least, ErrorKind::invalid_argument, "{} is {}, expected at least {}", key, value, least);
}

void check_optimiser(const OptimiserOptions& optimiser) {
  check("optimiser.learning_rate", optimiser.learning_rate, 0.0);
  check_share("optimiser.momentum", optimiser.momentum);
  check_share("optimiser.beta1", optimiser.beta1);
  check_share("optimiser.beta2", optimiser.beta2);
  check("optimiser.epsilon", optimiser.epsilon, -kNoLimit);
  check("optimiser.rate_decay", optimiser.rate_decay, 0.0);
  check("optimiser.trust", optimiser.trust, 0.0);
  check("optimiser.weight_decay", optimiser.weight_decay, 0.0);
  check("optimiser.clip_norm", optimiser.clip_norm, 0.0);
  const ScheduleOptions& schedule = optimiser.schedule;
  check("optimiser.schedule.warmup_steps", schedule.warmup_steps, 0);
  check("optimiser.schedule.final_share", schedule.final_share, 0, 1);
  check_positive("optimiser.schedule.power", schedule.power);
  check_positive("optimiser.schedule.factor", schedule.factor);
  check("optimiser.schedule.every", schedule.every, 0);
}

void check_loss(const LossOptions& loss) {
  check_share("loss.label_smoothing", loss.label_smoothing);
  check("loss.alpha", loss.alpha, -kNoLimit, 1);
  check("loss.gamma", loss.gamma, 0.0);
  check_positive("loss.beta", loss.beta);
  check_positive("loss.temperature", loss.temperature);
  check("loss.smoothing", loss.smoothing, 0.0);
  check("loss.blank", loss.blank, 0);
}

void check_data(const TrainingData& data) {
  check_share("data.hold_out", data.hold_out);
  check("data.batch", data.batch, 1);
  check("data.batch_multiplier", data.batch_multiplier, 1);
  check("data.workers", static_cast<std::int64_t>(data.workers), 0);
  check("data.mixup", data.mixup, 0.0);
  check("data.height", data.height, 0);
  check("data.width", data.width, 0);
  require(data.clip_quantile >= 0 && data.clip_quantile < 0.5, ErrorKind::invalid_argument,
          "data.clip_quantile is {}, expected a number in [0, 0.5)", data.clip_quantile);
  check("data.length", data.length, 1);
  check("data.vocabulary", data.vocabulary, 4);
}

void check_compression(const TrainingConfig& config) {
  if (config.prune) {
    check_share("prune.sparsity", config.prune->sparsity);
    check_share("prune.initial_sparsity", config.prune->initial_sparsity);
    for (const auto& [pattern, sparsity] : config.prune->layers)
      check_share(("prune.layers." + pattern).c_str(), sparsity);
    check("prune.begin_step", config.prune->begin_step, 0);
    check("prune.end_step", config.prune->end_step, 0);
    check("prune.every", config.prune->every, 0);
  }
  if (config.teacher) {
    check_positive("teacher.temperature", config.teacher->temperature);
    check("teacher.weight", config.teacher->weight, 0, 1);
    check("teacher.attention_weight", config.teacher->attention_weight, 0.0);
  }
  if (config.compress) check_share("compress.range_decay", config.compress->range_decay);
}

}  // namespace

void check_config(const TrainingConfig& config) {
  check_optimiser(config.optimiser);
  check_loss(config.loss);
  check_data(config.data);
  check_compression(config);
  check("train.epochs", config.epochs, 0);
  check("train.steps", config.steps, 0);
  check("train.accumulate", config.accumulate, 1);
  check_positive("train.rank_timeout", config.rank_timeout_s);
  check_share("train.average_decay", config.average_decay);
  check("train.log_every", config.log_every, 1);
  check("train.evaluate_every", config.evaluate_every, 0);
  check("train.checkpoint_every", config.checkpoint_every, 0);
  check("train.patience", config.patience, 0);
  check("train.recompute_bytes", config.recompute_bytes, 0);
  check("train.memory_limit_bytes", config.memory_limit_bytes, 0);
  check("train.threads", static_cast<std::int64_t>(config.threads), 0);
  for (const double bound : {config.loss_scale.initial, config.loss_scale.least, config.loss_scale.most})
    check_positive("train.loss_scale", bound);
}

}  // namespace tessera::train
