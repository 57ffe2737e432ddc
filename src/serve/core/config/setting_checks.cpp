#include "serve/core/config/setting_checks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "serve/core/config/setting_values.h"
#include "serve/core/models/picture_model.h"

namespace tessera::serve {
namespace {

constexpr std::uint32_t kMostWarmUps = 1000;  // of one kind
constexpr std::array<std::string_view, 4> kBackends{"", "onnxruntime", "tessera", kPictureBackend};
constexpr std::array<std::string_view, 4> kPlatforms{"", "onnxruntime_onnx", "tessera", "ensemble"};

void check_time(std::uint64_t microseconds, double most, std::string_view key, const std::string& where) {
  setting_within(static_cast<double>(microseconds), most, key, where);
}

void check_sequences(const ModelSettings& settings, const std::string& where) {
  const inference::ModelConfig& config = settings.config;
  if (!config.has_sequence_batching()) return;
  const inference::ModelSequenceBatching& rules = config.sequence_batching();
  check_time(rules.max_sequence_idle_microseconds(), kMostIdleUs, "max_sequence_idle_microseconds", where);
  check_time(rules.oldest().max_queue_delay_microseconds(), kMostDelayUs, "max_queue_delay_microseconds", where);
  check_time(rules.direct().max_queue_delay_microseconds(), kMostDelayUs, "max_queue_delay_microseconds", where);
  require(settings.before.empty() && settings.after.empty(), ErrorKind::unsupported,
          "{} has steps before or after a network with sequence batching: put it into an ensemble", where);
  require(!config.response_cache().enable(), ErrorKind::invalid_argument,
          "{} asks for a response cache, but the answers of a model with sequence batching depend on its states",
          where);
  for (const std::int32_t size : rules.oldest().preferred_batch_size())
    require(size >= 1 && size <= std::max(config.max_batch_size(), 1), ErrorKind::invalid_argument,
            "preferred_batch_size in {} has {}, expected 1 to max_batch_size ({})", where, size,
            config.max_batch_size());
}

// A model of another backend would be told that a file is missing.
void check_backend(const inference::ModelConfig& config, const std::string& where) {
  constexpr const char* kOurs =
      "this server has models of ONNX and .tsr files (backend \"onnxruntime\", which may be left out), images "
      "(backend \"tessera_picture\") and ensembles (platform \"ensemble\")";
  require(std::ranges::find(kBackends, config.backend()) != kBackends.end(), ErrorKind::unsupported,
          "{} asks for the backend '{}': {}", where, base::shown(config.backend()), kOurs);
  require(std::ranges::find(kPlatforms, config.platform()) != kPlatforms.end(), ErrorKind::unsupported,
          "{} asks for the platform '{}': {}", where, base::shown(config.platform()), kOurs);
}

// Checks ensembles, and models with steps before or after the network.
void check_parts(const ModelSettings& settings, const std::string& where) {
  const inference::ModelConfig& config = settings.config;
  const auto reshapes = [](const auto& tensor) { return tensor.has_reshape(); };
  const bool has_reshape =
      std::ranges::any_of(config.input(), reshapes) || std::ranges::any_of(config.output(), reshapes);
  require(!has_reshape || (settings.before.empty() && settings.after.empty()), ErrorKind::unsupported,
          "{} has a reshape and steps before or after the network, which take the network's own shapes", where);
  if (!settings.is_ensemble()) return;
  require(config.model_warmup_size() == 0, ErrorKind::unsupported,
          "{} has a warm-up for an ensemble: its models have theirs", where);
  require(!has_reshape, ErrorKind::unsupported, "{} has a reshape for an ensemble: its models have theirs", where);
}

}  // namespace

void read_parameters(ModelSettings& settings, const std::string& where) {
  for (const auto& [key, value] : settings.config.parameters()) {
    const std::string& text = value.string_value();
    if (key == "priority") settings.priority = priority_of(text, where);
    else if (key == "weight") settings.weight = number_of(text, key, where);
    else if (key == "goal_ms") settings.goal_ns = goal_ns_of(number_of(text, key, where), where);
    else if (key == "memory_limit_mib")
      settings.memory_limit_bytes = memory_bytes_of(number_of(text, key, where), where);
    else if (key == "threads") settings.threads = threads_of(number_of(text, key, where), where);
    else if (key == "precision") settings.precision = text;
    else if (key.starts_with("share.")) settings.shares[version_of(key.substr(6), where)] = number_of(text, key, where);
    else if (key.starts_with("before.")) settings.before[key.substr(7)] = text;
    else if (key.starts_with("after.")) settings.after[key.substr(6)] = text;
    else if (key.starts_with("generate.")) settings.generate[key.substr(9)] = text;
    else if (settings.config.backend() != kPictureBackend)
      settings.ignored.push_back(
          {fmt::format("parameters['{}']", base::shown(key)), "this server has no such setting"});
  }
}

void check_settings(const ModelSettings& settings, const std::string& where) {
  const inference::ModelConfig& config = settings.config;
  require(config.max_batch_size() >= 0 && config.max_batch_size() <= kMostBatch, ErrorKind::invalid_argument,
          "max_batch_size in {} is {}, expected 0 to {}", where, config.max_batch_size(), kMostBatch);
  for (const inference::ModelInstanceGroup& group : config.instance_group()) {
    require(group.kind() != inference::ModelInstanceGroup::KIND_GPU, ErrorKind::unsupported,
            "{} asks for instances on a GPU, and this server computes on the CPU: use KIND_CPU", where);
    require(group.count() >= 0 && group.count() <= kMostInstances, ErrorKind::invalid_argument,
            "an instance group in {} has the count {}, expected 1 to {}", where, group.count(), kMostInstances);
  }
  require(settings.instances() <= kMostInstances, ErrorKind::invalid_argument,
          "the instance groups in {} have {} instances together, expected at most {}", where, settings.instances(),
          kMostInstances);
  check_time(config.dynamic_batching().max_queue_delay_microseconds(), kMostDelayUs, "max_queue_delay_microseconds",
             where);
  for (const std::int32_t size : config.dynamic_batching().preferred_batch_size())
    require(size >= 1 && size <= std::max(config.max_batch_size(), 1), ErrorKind::invalid_argument,
            "preferred_batch_size in {} has {}, expected 1 to max_batch_size ({})", where, size,
            config.max_batch_size());
  check_sequences(settings, where);
  check_backend(config, where);
  check_parts(settings, where);
  for (const inference::ModelWarmup& warm_up : config.model_warmup())
    require(warm_up.count() <= kMostWarmUps, ErrorKind::invalid_argument,
            "the warm-up '{}' in {} has the count {}, expected at most {}", warm_up.name(), where, warm_up.count(),
            kMostWarmUps);
  require(settings.weight > 0 && std::isfinite(settings.weight), ErrorKind::invalid_argument,
          "the weight in {} must be above 0 and finite", where);
  require(settings.precision.empty() || settings.precision == "f32" || settings.precision == "bf16",
          ErrorKind::invalid_argument, "the precision in {} is '{}', expected f32 or bf16", where, settings.precision);
}

}  // namespace tessera::serve
