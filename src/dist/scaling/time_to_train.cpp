#include "dist/scaling/time_to_train.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace tessera::dist {
namespace {

constexpr std::size_t kMostTableRows = 1000, kMostCounts = 1000;

std::int64_t quotient_up(std::int64_t count, std::int64_t by) {
  return count / by + (count % by != 0 ? 1 : 0);
}

std::int64_t parse_count(std::string_view text, std::string_view whole) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  require(error == std::errc() && end == text.data() + text.size() && count >= 1 && count <= kMostGpus,
          ErrorKind::invalid_argument,
          "numbers of GPUs are such as 8, 1..4096 or 8,64,512, each from 1 to {}; found '{}'", kMostGpus,
          base::printable(base::shown(whole)));
  return count;
}

}  // namespace

ScalingModel::ScalingModel(TrainingProfile profile, ClusterProfile cluster)
    : profile_(std::move(profile)), cluster_(std::move(cluster)) {
  sample_seconds_ = profile_.sample_seconds ? *profile_.sample_seconds : calibrated();
  require(peak_share() <= 1, ErrorKind::invalid_argument,
          "'{}' would compute {:.2f} times as fast as the peak of {}: operations_per_sample or the measured time is "
          "wrong",
          profile_.title, peak_share(), cluster_.device.title);
}

double ScalingModel::calibrated() const {
  const MeasuredTraining& measured = *profile_.measured;
  const double seconds = measured.seconds / steps(measured.batch, measured.epochs);
  const auto time_with = [&](double sample_seconds) {
    return step_with(sample_seconds, measured.gpus, measured.batch, 1, {}).seconds();
  };
  require(measured.gpus <= cluster_.gpus_per_node || measured.gpus % cluster_.gpus_per_node == 0,
          ErrorKind::invalid_argument, "the training of '{}' was measured on {} GPUs, which are no whole nodes of {}",
          profile_.title, measured.gpus, cluster_.gpus_per_node);
  require(measured.batch >= measured.gpus, ErrorKind::invalid_argument,
          "the training of '{}' was measured with a batch of {} on {} GPUs: expected a sample for each", profile_.title,
          measured.batch, measured.gpus);
  const double least = time_with(0);
  require(
      least < seconds, ErrorKind::invalid_argument,
      "a step of '{}' took {:.3g} ms as measured, but its kernels, exchanges and update alone take {:.3g} ms on {}: "
      "the profile or the cluster is wrong",
      profile_.title, 1e3 * seconds, 1e3 * least, cluster_.name);
  // The time of a step grows with that of a sample, but by less where the sum of gradients hides behind it.
  double low = 0, high = seconds;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (time_with(middle) < seconds ? low : high) = middle;
  }
  return high;
}

double ScalingModel::peak_share() const {
  const double peak = cluster_.device.peak(cost::Precision::f16, true);
  if (profile_.operations_per_sample == 0 || peak == 0) return 0;
  if (sample_seconds_ == 0) return std::numeric_limits<double>::infinity();
  return profile_.operations_per_sample / sample_seconds_ / peak;
}

double ScalingModel::steps(std::int64_t batch, double epochs) const {
  return epochs * std::ceil(profile_.epoch_samples / static_cast<double>(batch));
}

double ScalingModel::compute_seconds(double sample_seconds, double samples, const StepTime& step, bool capture) const {
  double arithmetic = sample_seconds * samples, borders = 0;
  if (step.split > 1) {
    const SpatialSplit& spatial = *profile_.spatial;
    arithmetic *= spatial.serial_share + (1 - spatial.serial_share) / static_cast<double>(step.split);
    borders =
        static_cast<double>(spatial.exchanges) *
        (cluster_.node_link.latency_seconds + samples * spatial.exchange_bytes / cluster_.node_link.bytes_per_second);
  }
  const double recurrences = profile_.recurrent_steps * cluster_.recurrent_step_seconds;
  const double seconds = profile_.kernels * cluster_.kernel_seconds + recurrences + arithmetic;
  // Without capture, the device may wait for the host.
  return (capture ? seconds : std::max(seconds, profile_.kernels * cluster_.launch_seconds + recurrences)) + borders;
}

// Sums buckets of gradients one after the other, each when the backward pass of the last micro-batch has computed it.
void ScalingModel::sum_gradients(StepTime& step, std::int64_t gpus, const ScalingOptions& options) const {
  const double all = profile_.all_gradient_bytes();
  const double backward = kBackwardShare * step.compute_seconds / static_cast<double>(step.micro_batches);
  const auto cost_of = [&](double bytes) { return all_reduce_cost(cluster_, gpus, bytes, options.all_reduce); };
  const auto ready = [&](double bytes) { return backward * bytes / all; };  // when so many bytes are computed
  const double first = std::min(all, kFirstBucketBytes), full = std::floor((all - first) / kBucketBytes);
  const double rest = all - first - full * kBucketBytes;
  double done = ready(first) + cost_of(first).seconds;
  step.all_reduce_seconds = cost_of(first).seconds;
  if (full > 0) {
    // Full buckets are ready at equal distances, so that either the first or the last of them determines the end.
    const double each = cost_of(kBucketBytes).seconds;
    done = std::max(
        {done + full * each, ready(first + kBucketBytes) + full * each, ready(first + full * kBucketBytes) + each});
    step.all_reduce_seconds += full * each;
  }
  if (rest > 0) {
    done = std::max(done, backward) + cost_of(rest).seconds;
    step.all_reduce_seconds += cost_of(rest).seconds;
  }
  step.exposed_seconds = gpus > 1 ? done - backward : 0;
  step.all_reduce = cost_of(std::min(all, kBucketBytes)).algorithm;
}

StepTime ScalingModel::step_with(double sample_seconds, std::int64_t gpus, std::int64_t batch, std::int64_t split,
                                 const ScalingOptions& options) const {
  StepTime step;
  step.split = split;
  step.gpu_batch = quotient_up(batch, gpus / split);
  step.micro_batches = quotient_up(step.gpu_batch, profile_.most_gpu_batch);
  const double parts = static_cast<double>(step.micro_batches), samples = static_cast<double>(step.gpu_batch) / parts;
  step.compute_seconds = parts * compute_seconds(sample_seconds, samples, step, options.capture);
  if (profile_.exchange_bytes > 0)
    step.exchange_seconds = 2 * parts * all_to_all_seconds(cluster_, gpus, profile_.exchange_bytes * samples);
  sum_gradients(step, gpus, options);
  step.update_seconds = profile_.parameters * profile_.update_bytes / cluster_.device.bandwidth;
  return step;
}

std::optional<StepTime> ScalingModel::step(std::int64_t gpus, std::int64_t batch, const ScalingOptions& options) const {
  const std::int64_t local = cluster_.gpus_per_node, training = gpus - options.evaluators;
  require(options.evaluators >= 0 && training >= 1, ErrorKind::invalid_argument,
          "{} evaluators of {} GPUs leave no GPU that trains", options.evaluators, gpus);
  for (const std::int64_t count : {gpus, training})
    require(count <= local || count % local == 0, ErrorKind::invalid_argument,
            "{} GPUs{} do not fill nodes of {}: choose a multiple of {}", count, count == gpus ? "" : " that train",
            local, local);
  for (std::int64_t split = 1; split <= std::min(local, training); split *= 2) {
    if (training % split != 0 || (split > 1 && !profile_.spatial)) break;
    if (training / split <= batch) return step_with(sample_seconds_, training, batch, split, options);
  }
  return std::nullopt;
}

std::vector<ScalingPoint> simulate_scaling(const ScalingModel& model, const std::vector<std::int64_t>& gpus,
                                           std::vector<cost::ConvergencePoint> table, const ScalingOptions& options) {
  require(table.size() <= kMostTableRows, ErrorKind::invalid_argument,
          "the convergence table has {} batches, expected at most {}", table.size(), kMostTableRows);
  std::ranges::sort(table, {}, &cost::ConvergencePoint::batch);
  const auto twice = std::ranges::adjacent_find(table, {}, &cost::ConvergencePoint::batch);
  require(twice == table.end(), ErrorKind::invalid_argument, "the convergence table names batch {} twice",
          twice == table.end() ? 0 : twice->batch);
  std::vector<ScalingPoint> points;
  for (const std::int64_t count : gpus) {
    ScalingPoint& point = points.emplace_back(ScalingPoint{.gpus = count});
    for (const cost::ConvergencePoint& row : table) {
      const std::optional<StepTime> step = model.step(count, row.batch, options);
      if (!step) continue;
      const double steps = model.steps(row.batch, row.epochs), seconds = steps * step->seconds();
      if (!point.training || seconds < point.training->seconds)
        point.training = {row.batch, row.epochs, steps, seconds, *step};
    }
  }
  require(std::ranges::any_of(points, [](const ScalingPoint& point) { return point.training.has_value(); }),
          ErrorKind::invalid_argument,
          "every batch of the convergence table has fewer samples than there are GPUs; add larger batches");
  return points;
}

std::vector<std::int64_t> parse_gpu_counts(std::string_view text) {
  std::vector<std::int64_t> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    const std::size_t dots = entry.find("..");
    const std::int64_t first = parse_count(entry.substr(0, dots), text);
    const std::int64_t last = dots == std::string_view::npos ? first : parse_count(entry.substr(dots + 2), text);
    require(first <= last, ErrorKind::invalid_argument, "the range '{}' of GPUs ends before it begins", entry);
    for (std::int64_t count = first; count < last; count *= 2) counts.push_back(count);
    counts.push_back(last);
    require(counts.size() <= kMostCounts, ErrorKind::invalid_argument, "there are more than {} numbers of GPUs",
            kMostCounts);
    begin = end + 1;
  }
  return counts;
}

}  // namespace tessera::dist
