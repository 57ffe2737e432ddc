#include "base/error.h"
#include "serve/core/models/repository.h"

namespace tessera::serve {

// Throws Error for an ensemble that is a step of itself, directly or through ensembles that are loaded. The ensemble
// that closes a circle by being loaded last is refused, so that the others find a step missing.
void Repository::check_no_circle(const std::string& name, const ModelSettings& settings) const {
  std::map<std::string, std::string> reached_from;  // a model, and the ensemble that has it as a step
  std::vector<std::string> next{name};
  const std::lock_guard lock(mutex_);
  const auto settings_of = [&](const std::string& model) -> const ModelSettings* {
    if (model == name) return &settings;
    const auto found = entries_.find(model);
    if (found == entries_.end() || found->second.versions.empty()) return nullptr;
    return &found->second.versions.rbegin()->second->info().settings;
  };
  while (!next.empty()) {
    const std::string model = std::move(next.back());
    next.pop_back();
    const ModelSettings* const found = settings_of(model);
    if (found == nullptr || !found->is_ensemble()) continue;
    for (const auto& step : found->config.ensemble_scheduling().step()) {
      if (reached_from.emplace(step.model_name(), model).second) next.push_back(step.model_name());
      if (step.model_name() != name) continue;
      std::string way = name;
      for (std::string at = model; at != name; at = reached_from.at(at)) way = at + " → " + way;
      fail(ErrorKind::invalid_argument, "the ensemble '{}' is a step of itself: {} → {}", name, name, way);
    }
  }
}

// Throws Error for an ensemble whose batches a model that is loaded does not take. One that is loaded later refuses the
// request instead.
void Repository::check_steps_take_batches(const std::string& name, const ModelSettings& settings) const {
  const std::int32_t rows = settings.config.max_batch_size();
  if (rows == 0) return;
  const std::lock_guard lock(mutex_);
  for (const auto& step : settings.config.ensemble_scheduling().step()) {
    const auto found = entries_.find(step.model_name());
    if (found == entries_.end() || found->second.versions.empty()) continue;
    const std::int32_t taken = found->second.versions.rbegin()->second->info().settings.config.max_batch_size();
    require(taken >= rows, ErrorKind::invalid_argument,
            "the ensemble '{}' has the max_batch_size {}, but its step '{}' {}", name, rows, step.model_name(),
            taken == 0 ? "takes no batches (max_batch_size 0)" : fmt::format("takes at most {} rows", taken));
  }
}

}  // namespace tessera::serve
