#include "report/measure/learning.h"

#include "base/error.h"
#include "report/measure/calibration.h"

namespace tessera::report {
namespace {

// Whether uncorrected predictions are equal, for products in the precisions that the CPU measures.
bool is_as_fast(const cost::DeviceProfile& a, const cost::DeviceProfile& b) {
  const auto same_peak = [&](cost::Precision precision) {
    return a.peak(precision, true) == b.peak(precision, true) && a.peak(precision, false) == b.peak(precision, false);
  };
  return same_peak(cost::Precision::f32) && same_peak(cost::Precision::bf16) && a.bandwidth == b.bandwidth &&
         a.overhead_seconds == b.overhead_seconds;
}

}  // namespace

void check_learnable(cost::Precision precision) {
  require(precision == cost::Precision::f32 || precision == cost::Precision::bf16, ErrorKind::invalid_argument,
          "there is nothing to learn in {}: the CPU measures f32 and bf16", cost::name_of(precision));
}

std::size_t learn_from(const Explanation& explanation) {
  require(explanation.measured.has_value(), ErrorKind::invalid_argument,
          "there is nothing to learn: nothing was measured");
  const MeasuredReport& measured = *explanation.measured;
  const cost::Evaluation& evaluation = explanation.devices[measured.device].evaluation;
  check_learnable(evaluation.precision);
  CpuProfile stored = load_cpu_profile();
  require(stored.measured, ErrorKind::not_found,
          "this CPU has no calibration to add to; run `tessera calibrate` first");
  const bool one = measured.threads == 1;
  require(one || measured.threads == stored.profile.multiprocessors, ErrorKind::invalid_argument,
          "the calibration holds times of one thread and of all {}, not of {}", stored.profile.multiprocessors,
          measured.threads);
  require(!one || stored.profile.multiprocessors == 1 || stored.profile.one_thread, ErrorKind::invalid_argument,
          "the calibration holds no times of one thread; run `tessera calibrate` again");
  const cost::DeviceProfile used = one ? stored.profile.with_one_thread() : stored.profile;
  require(evaluation.device.title == used.title && is_as_fast(evaluation.device, used), ErrorKind::invalid_argument,
          "what was measured was explained as {}, not as this CPU, {}", evaluation.device.title, used.title);
  std::vector<cost::Sample> samples;
  for (std::size_t i = 0; i < evaluation.layers.size(); ++i) {
    const cost::Layer& layer = evaluation.layers[i];
    std::optional<cost::Sample> sample = cost::sample_of(layer.work, layer.estimate, measured.seconds[i]);
    if (!sample) continue;
    sample->learned = true;
    samples.push_back(std::move(*sample));
  }
  const bool alone = stored.profile.multiprocessors == 1;  // one thread is also all threads
  if ((one || alone) && stored.profile.one_thread) stored.profile.one_thread->correction.learn(samples);
  if (!one || alone) stored.profile.correction.learn(samples);
  save_calibration(stored.profile, calibration_path());
  return samples.size();
}

}  // namespace tessera::report
