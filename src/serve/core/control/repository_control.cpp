// Which models the repository loads by itself, and what else a request to load or unload concerns.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "serve/core/models/repository.h"
#include "serve/core/models/repository_folder.h"
#include "serve/core/operations/log.h"

namespace tessera::serve {

void Repository::check_takes_requests() const {
  if (control_.mode == ModelControl::none)
    throw Failure(Reason::unsupported, "this server loads its models at the start alone (model control mode none)");
  if (control_.mode == ModelControl::poll)
    throw Failure(Reason::unsupported,
                  "this server loads and unloads models as their folders change (model control mode poll)");
}

// The settings of a model as they would be loaded; those of no model where its configuration has mistakes.
ModelSettings Repository::settings_on_disk(const std::string& name) const {
  try {
    return single_ || !is_name(name) ? ModelSettings() : read_model_settings(path_ / name, name);
  } catch (const Error&) {
    return {};  // whoever loads the model is told
  }
}

std::vector<std::string> Repository::steps_of(const std::string& name) const {
  std::vector<std::string> steps;
  const auto add = [&](const ModelSettings& settings) {
    for (const auto& step : settings.config.ensemble_scheduling().step()) steps.push_back(step.model_name());
  };
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found != entries_.end() && !found->second.versions.empty())
      add(found->second.versions.rbegin()->second->info().settings);
  }
  std::ranges::sort(steps);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

bool Repository::is_loaded(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found != entries_.end() && !found->second.versions.empty();
}

void Repository::load_missing_steps(const std::string& name, const std::optional<std::string>& config) {
  std::set<std::string> visited;
  try {
    load_missing_steps(name, config ? parse_config_json(*config, name) : settings_on_disk(name), visited);
  } catch (const Failure& failure) {
    note_failure(name, failure.what(), "");
    throw;
  } catch (const Error&) {
    // The configuration has mistakes, of which whoever loads the model is told.
  }
}

// An ensemble brings the models that it needs. `visited`: what is being loaded, against circles.
void Repository::load_missing_steps(const std::string& name, const ModelSettings& settings,
                                    std::set<std::string>& visited) {
  visited.insert(name);
  for (const auto& step : settings.config.ensemble_scheduling().step()) {
    const std::string& model = step.model_name();
    if (is_loaded(model) || visited.contains(model)) continue;
    try {
      load_missing_steps(model, settings_on_disk(model), visited);
      load_alone(model, std::nullopt);
    } catch (const Failure& failure) {
      throw Failure(Reason::bad_request, fmt::format("the ensemble '{}' needs the model '{}': {}", name,
                                                     base::shown(model), failure.what()));
    }
  }
}

// The models to load at the start, ensembles behind the models that they need, so that the two are compared.
std::vector<std::string> Repository::names_to_load() const {
  std::vector<std::string> names = names_on_disk();
  const bool by_request = control_.mode == ModelControl::by_request;
  if (by_request && std::ranges::find(control_.load, "*") == control_.load.end()) names = control_.load;
  std::ranges::stable_partition(names, [&](const std::string& name) { return !settings_on_disk(name).is_ensemble(); });
  return names;
}

// The models on disk that are loaded anew when their files change.
std::vector<std::string> Repository::names_to_refresh() const {
  std::vector<std::string> names = names_on_disk();
  if (control_.mode != ModelControl::by_request) return names;
  const std::lock_guard lock(mutex_);
  std::erase_if(names, [&](const std::string& name) {
    return !entries_.contains(name) && std::ranges::find(control_.load, name) == control_.load.end() &&
           std::ranges::find(control_.load, "*") == control_.load.end();
  });
  return names;
}

bool Repository::is_ready() const {
  const std::lock_guard lock(mutex_);
  const auto loaded = [&](const std::string& name) {
    const auto found = entries_.find(name);
    return found != entries_.end() && !found->second.versions.empty();
  };
  const auto is_there = [](const auto& named) { return !named.second.versions.empty(); };
  const auto is_missing = [](const auto& named) { return named.second.wanted && named.second.versions.empty(); };
  switch (control_.ready.kind) {
    case ReadyRule::Kind::listed:
      return std::ranges::all_of(control_.ready.models, loaded);
    case ReadyRule::Kind::any:
      return std::ranges::any_of(entries_, is_there) || std::ranges::none_of(entries_, is_missing);
    case ReadyRule::Kind::all:
      break;
  }
  return std::ranges::none_of(entries_, is_missing);
}

}  // namespace tessera::serve
