#include "serve/core/served_model_options.h"

#include <algorithm>

namespace tessera::serve {

SessionOptions session_options(const ModelSettings& settings) {
  SessionOptions options;
  options.threads = settings.threads;
  options.memory_limit_bytes = settings.memory_limit_bytes;
  if (settings.precision == "bf16") options.precision = DType::bf16;
  if (settings.precision == "f32") options.precision = DType::f32;
  options.max_cached_plans = std::max(options.max_cached_plans, settings.config.max_batch_size() + 4);
  return options;
}

JobOptions job_options(const ModelSettings& settings, const std::string& version) {
  JobOptions options;
  options.name = settings.config.name() + "/" + version;
  options.priority = settings.priority;
  options.weight = settings.weight;
  if (settings.priority == Priority::realtime) options.goal_ns = settings.goal_ns;
  return options;
}

BatchingRule batching_rule(const ModelSettings& settings) {
  BatchingRule rule;
  // Without dynamic batching a request may have several rows, but is computed alone.
  if (!settings.config.has_dynamic_batching()) return rule;
  rule.most_rows = std::max(settings.config.max_batch_size(), 1);
  rule.delay_ns = settings.delay_ns();
  for (const std::int32_t size : settings.config.dynamic_batching().preferred_batch_size())
    rule.preferred.push_back(size);
  std::ranges::sort(rule.preferred);
  return rule;
}

std::vector<TensorInfo> infos(const std::vector<ValueDescription>& values, bool batched) {
  std::vector<TensorInfo> infos;
  for (const ValueDescription& value : values) {
    TensorInfo info{value.name, value.dtype, value.dims};
    if (batched && !info.shape.empty()) info.shape[0] = -1;
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace tessera::serve
