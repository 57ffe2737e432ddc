#include "dist/scaling/model_profile.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::dist {

TrainingProfile profile_of_evaluations(const cost::Evaluation& once, const cost::Evaluation& twice, std::int64_t batch,
                                       double parameters, double epoch_samples, const std::string& title) {
  require(parameters >= 1, ErrorKind::invalid_argument, "'{}' has no parameters to train", title);
  const auto samples = static_cast<double>(batch);
  TrainingProfile profile;
  profile.title = title;
  profile.parameters = parameters;
  profile.kernels = static_cast<double>(std::ranges::count_if(
      once.layers, [](const cost::Layer& layer) { return layer.estimate.bound != cost::Bound::none; }));
  profile.epoch_samples = epoch_samples;
  profile.operations_per_sample = std::max(0.0, (twice.total.operations - once.total.operations) / samples);
  profile.most_gpu_batch = batch;
  profile.sample_seconds = std::max(0.0, (twice.total.seconds - once.total.seconds) / samples);
  return profile;
}

double count_parameters(const ir::Graph& net) {
  double count = 0;
  for (std::size_t i = 0; i < net.value_count(); ++i) {
    const Tensor* constant = net.constant(ir::ValueId{static_cast<std::int32_t>(i)});
    if (constant != nullptr && is_float(constant->dtype()))
      count += static_cast<double>(element_count(constant->shape()));
  }
  return count;
}

}  // namespace tessera::dist
