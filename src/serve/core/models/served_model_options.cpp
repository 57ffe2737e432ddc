#include "serve/core/models/served_model_options.h"

#include <algorithm>

namespace tessera::serve {
namespace {

Shape shape_of(const inference::ModelTensorReshape& reshape) {
  return {reshape.shape().begin(), reshape.shape().end()};
}

template <typename ConfigTensor>
Shape dims_of(const ConfigTensor& tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

template <typename ConfigTensors>
std::vector<TensorInfo> described(const std::vector<ValueDescription>& values, const ConfigTensors& tensors,
                                  bool batched) {
  std::vector<TensorInfo> infos;
  for (const ValueDescription& value : values) {
    TensorInfo info{value.name, value.dtype, value.dims};
    const auto given = std::ranges::find_if(tensors, [&](const auto& tensor) { return tensor.name() == value.name; });
    if (given != tensors.end() && (value.rank_known || given->dims_size() > 0 || given->has_reshape())) {
      info.shape = dims_of(*given);
      if (batched) info.shape.insert(info.shape.begin(), -1);
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace

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

std::vector<TensorInfo> infos(const std::vector<ValueDescription>& values, const Inputs& inputs, bool batched) {
  return described(values, inputs, batched);
}

std::vector<TensorInfo> infos(const std::vector<ValueDescription>& values, const Outputs& outputs, bool batched) {
  return described(values, outputs, batched);
}

std::map<std::string, TensorReshape> reshapes(const Inputs& inputs) {
  std::map<std::string, TensorReshape> found;
  for (const inference::ModelInput& input : inputs) {
    if (input.has_reshape())
      found.emplace(input.name(), TensorReshape(dims_of(input), shape_of(input.reshape()), input.name()));
  }
  return found;
}

std::map<std::string, TensorReshape> reshapes(const Outputs& outputs) {
  std::map<std::string, TensorReshape> found;
  for (const inference::ModelOutput& output : outputs) {
    if (output.has_reshape())
      found.emplace(output.name(), TensorReshape(shape_of(output.reshape()), dims_of(output), output.name()));
  }
  return found;
}

}  // namespace tessera::serve
