#include "dist/scaling/training_profile.h"

#include "base/error.h"
#include "dist/scaling/checked_toml.h"
#include "dist/scaling/cluster_profile.h"

namespace tessera::dist {
namespace {

constexpr std::int64_t kMostBatch = std::int64_t{1} << 40;
constexpr double kMostParameters = 1e12, kMostCount = 1e9, kMostBytes = 1e12, kMostSamples = 1e15;

MeasuredTraining read_measured(io::TomlTable table, const std::string& place) {
  return {.gpus = bounded_whole(table, place, "gpus", 1, kMostGpus),
          .batch = bounded_whole(table, place, "batch", 1, kMostBatch),
          .epochs = bounded_number(table, place, "epochs", 1e-9, kMostCount),
          .seconds = 60 * bounded_number(table, place, "minutes", 1e-9, 1e9)};
}

SpatialSplit read_spatial(io::TomlTable table, const std::string& place) {
  return {.serial_share = bounded_number(table, place, "serial_share", 0, 1),
          .exchanges = bounded_whole(table, place, "exchanges", 0, 1'000'000),
          .exchange_bytes = bounded_number(table, place, "exchange_bytes", 0, kMostBytes)};
}

}  // namespace

TrainingProfile parse_training_profile(std::string_view text, const std::string& where) {
  io::TomlTable file = io::TomlTable::parse(text, where);
  TrainingProfile profile;
  profile.title = file.text("title", where);
  profile.sources = file.texts("sources");
  profile.parameters = bounded_number(file, where, "parameters", 1, kMostParameters);
  profile.gradient_bytes = bounded_number(file, where, "gradient_bytes", 0.01, 16, profile.gradient_bytes);
  profile.update_bytes = bounded_number(file, where, "update_bytes", 0, 1000, profile.update_bytes);
  profile.kernels = bounded_number(file, where, "kernels", 0, kMostCount);
  profile.recurrent_steps = bounded_number(file, where, "recurrent_steps", 0, kMostCount, 0);
  profile.exchange_bytes = bounded_number(file, where, "exchange_bytes", 0, kMostBytes, 0);
  profile.epoch_samples = bounded_number(file, where, "epoch_samples", 1, kMostSamples);
  profile.operations_per_sample = bounded_number(file, where, "operations_per_sample", 1, 1e24, 0);
  profile.measured = read_measured(file.table("measured"), where + " [measured]");
  const std::int64_t measured_at_once = (profile.measured->batch + profile.measured->gpus - 1) / profile.measured->gpus;
  profile.most_gpu_batch = bounded_whole(file, where, "most_gpu_batch", 1, kMostBatch, measured_at_once);
  if (file.has("spatial")) profile.spatial = read_spatial(file.table("spatial"), where + " [spatial]");
  file.check_all_read();
  return profile;
}

}  // namespace tessera::dist
