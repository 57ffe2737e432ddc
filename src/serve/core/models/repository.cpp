#include "serve/core/models/repository.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "serve/core/models/cached_model.h"
#include "serve/core/models/ensemble.h"
#include "serve/core/models/generation.h"
#include "serve/core/models/picture_model.h"
#include "serve/core/models/pipeline.h"
#include "serve/core/models/repository_folder.h"
#include "serve/core/models/sequence_model.h"
#include "serve/core/models/served_model.h"
#include "serve/core/models/warm_up.h"
#include "serve/core/operations/log.h"

namespace tessera::serve {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostTold = 1000;  // folders that are passed over, fields that are ignored
constexpr const char* kGone = "the folder of the model is not there";

}  // namespace

Repository::Repository(Arbiter& arbiter, const fs::path& path, std::int64_t cache_bytes, ControlOptions control)
    : arbiter_(arbiter), path_(path), control_(std::move(control)), cache_(cache_bytes) {
  require(fs::exists(path), ErrorKind::not_found, "there is no model or repository at {}", path.string());
  single_ = fs::is_regular_file(path);
  require(single_ || fs::is_directory(path), ErrorKind::io, "{} is neither a file nor a folder", path.string());
  if (single_)
    require(is_name(path.stem().string()), ErrorKind::invalid_argument,
            "'{}' cannot be the name of a model: use letters, digits, '_', '-' and '.'", path.stem().string());
  reaper_ = std::thread([this] { reap(); });
}

Repository::~Repository() {
  drain();
  {
    const std::lock_guard lock(retired_mutex_);
    stopping_ = true;
  }
  retired_changed_.notify_all();
  reaper_.join();
}

// Whether nobody has been told of this; what is beyond the first kMostTold is told to nobody.
bool Repository::is_first_time(const std::string& told) const {
  const std::lock_guard lock(told_mutex_);
  return told_.size() < kMostTold && told_.insert(told).second;
}

void Repository::tell_of_ignored(const std::string& name, const ModelSettings& settings) const {
  for (const auto& [field, why] : settings.ignored) {
    if (is_first_time(name + "/" + field))
      log(Level::warning, "a field of a model's configuration has no effect",
          {{"model", name}, {"field", field}, {"why", why}});
  }
}

std::vector<std::string> Repository::names_on_disk() const {
  if (single_) return {path_.stem().string()};
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name.starts_with('.')) continue;
    if (is_name(name)) names.push_back(name);
    else if (is_first_time(name))
      log(Level::warning, "a folder is passed over: names of models have letters, digits, '_', '-' and '.'",
          {{"folder", name}});
  }
  std::ranges::sort(names);
  return names;
}

std::shared_ptr<Servable> Repository::make_model(const fs::path& folder, const std::string& version,
                                                 const ModelSettings& settings) const {
  const Labels labels = read_labels(folder, settings);
  if (settings.is_ensemble())
    return std::make_shared<Ensemble>(version, settings, labels,
                                      [this](const std::shared_ptr<Call>& call) { submit(call); });
  if (settings.config.backend() == kPictureBackend) return make_picture_model(arbiter_, version, settings, images_);
  const Model model = Model::load(model_file(folder / version, settings));
  if (settings.config.has_sequence_batching())
    return std::make_shared<SequenceModel>(
        std::make_shared<ServedModel>(arbiter_, model, version, settings_of_network(settings), labels, &timeline_),
        settings.config.sequence_batching(), folder);
  auto network = std::make_shared<ServedModel>(arbiter_, model, version, settings, labels, &timeline_);
  if (settings.before.empty() && settings.after.empty()) return network;
  const auto source = [&](const std::map<std::string, std::string>& values, const char* table) {
    return StepSource{StepSettings(values, fmt::format("[{}] of model '{}'", table, settings.config.name())), folder,
                      model, images_};
  };
  std::unique_ptr<PipelineStep> before, after;
  if (!settings.before.empty()) before = make_step_before(source(settings.before, "before"));
  if (!settings.after.empty())
    after = make_step_after(source(settings.after, "after"), source(settings.before, "before").settings);
  return std::make_shared<Pipeline>(arbiter_, std::move(before), std::move(network), std::move(after));
}

std::shared_ptr<Servable> Repository::make_version(const fs::path& folder, const std::string& version,
                                                   const ModelSettings& settings) {
  std::shared_ptr<Servable> model = make_model(folder, version, settings);
  generation_rules(model->info());  // their mistakes are told when the model is loaded
  run_warm_up(*model, folder);
  if (!settings.config.response_cache().enable()) return model;
  return std::make_shared<CachedModel>(std::move(model), cache_);
}

Repository::Loaded Repository::make_versions(const std::string& name, const std::optional<std::string>& config) {
  Versions versions;
  const std::string where = fmt::format("the configuration in the request to load '{}'", name);
  if (single_) {
    ModelSettings settings = config ? parse_config_json(*config, where) : ModelSettings();
    settings.config.set_name(name);
    versions[1] = std::make_shared<ServedModel>(arbiter_, Model::load(path_), "1", settings, Labels{}, &timeline_);
    return {std::move(versions), {}};
  }
  const fs::path folder = path_ / name;
  const ModelSettings settings =
      config ? with_name(parse_config_json(*config, where), name) : read_model_settings(folder, name);
  tell_of_ignored(name, settings);
  if (settings.is_ensemble()) check_no_circle(name, settings);
  if (settings.is_ensemble()) check_steps_take_batches(name, settings);
  std::vector<std::int64_t> numbers = chosen_versions(folder, settings);
  // A model that needs no file needs no folder of a version either.
  if (numbers.empty() && (settings.is_ensemble() || settings.config.backend() == kPictureBackend)) numbers = {1};
  for (const auto& [version, share] : settings.shares)
    require(std::ranges::find(numbers, version) != numbers.end(), ErrorKind::invalid_argument,
            "version {} of model '{}' has a share, but is not there or not chosen by the version policy", version,
            name);
  require(!numbers.empty(), ErrorKind::not_found, "the folder of model '{}' has no version (a folder named 1, 2 …)",
          name);
  VersionShares shares(settings.shares);
  for (const std::int64_t number : numbers) versions[number] = make_version(folder, std::to_string(number), settings);
  return {std::move(versions), std::move(shares)};
}

// A string that changes whenever a file of the model does.
std::string Repository::signature_of(const std::string& name) const {
  const auto describe = [](const fs::path& path) {
    std::error_code error;
    const auto time = fs::last_write_time(path, error).time_since_epoch().count();
    const auto bytes = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
    return fmt::format("{} {} {}\n", path.string(), time, bytes);
  };
  if (single_) return describe(path_);
  std::vector<std::string> lines;
  std::error_code error;
  const auto follows = fs::directory_options::follow_directory_symlink;
  for (auto it = fs::recursive_directory_iterator(path_ / name, follows, error);
       it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (error || it.depth() > 3) break;
    if (it->is_regular_file(error)) lines.push_back(describe(it->path()));
  }
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, ""));
}

void Repository::exchange(const std::string& name, Loaded loaded, const std::string& signature,
                          const std::optional<std::string>& config) {
  Versions old;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[name];
    old = std::exchange(entry.versions, std::move(loaded.versions));
    entry.shares = std::move(loaded.shares);
    entry.reason.clear();
    entry.signature = signature;
    entry.config = config;
    entry.wanted = true;
    std::erase_if(entry.lingering, [](const auto& servable) { return servable.expired(); });
    for (const auto& [number, servable] : old) entry.lingering.emplace_back(servable);
  }
  for (const auto& [number, servable] : old) servable->refuse_new_sequences();
  retire(std::move(old), true);
}

void Repository::load(const std::string& name, const std::optional<std::string>& config) {
  if (control_.mode == ModelControl::by_request) load_missing_steps(name, config);
  load_alone(name, config);
}

void Repository::load_alone(const std::string& name, const std::optional<std::string>& config) {
  const std::lock_guard loading(loading_);
  const std::vector<std::string> names = names_on_disk();
  if (std::ranges::find(names, name) == names.end())
    throw Failure(Reason::not_found, fmt::format("the repository has no model '{}'", base::shown(name)));
  const std::string signature = signature_of(name);
  const std::int64_t start_ns = Clock::steady().now_ns();
  try {
    exchange(name, make_versions(name, config), signature, config);
    log(Level::info, "model loaded",
        {{"model", name},
         {"ms", fmt::format("{:.1f}", static_cast<double>(Clock::steady().now_ns() - start_ns) * 1e-6)}});
  } catch (const std::exception& error) {
    const auto* const known = dynamic_cast<const Error*>(&error);
    const bool tells_paths =
        known == nullptr || known->kind() == ErrorKind::io || known->kind() == ErrorKind::not_found;
    const std::string reason = tells_paths ? "a file of the model is missing or cannot be read" : known->message();
    note_failure(name, reason, signature);
    log(Level::error, "model not loaded", {{"model", name}, {"why", error.what()}});
    // Who sent a configuration knows it, and cannot see the server's log.
    const std::string why = config ? ": " + reason : "; the index and the server's log say why";
    throw Failure(Reason::bad_request, fmt::format("model '{}' could not be loaded{}", name, why));
  }
}

// Records why a model that was asked for is not loaded, or not loaded anew.
void Repository::note_failure(const std::string& name, const std::string& reason, const std::string& signature) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  entry.reason = reason;
  entry.signature = signature;
  entry.wanted = true;
}

void Repository::load_all() {
  for (const std::string& name : names_to_load()) {
    if (stops_loading_) return;
    try {
      if (!is_loaded(name)) load(name);  // an ensemble may have brought it
    } catch (const Failure& failure) {
      // It stands in the index with the reason.
      if (failure.reason() != Reason::not_found) continue;
      note_failure(name, kGone, "");
      log(Level::error, "model not loaded", {{"model", name}, {"why", failure.what()}});
    }
  }
  loads_all_ = false;
}

void Repository::unload(const std::string& name) {
  const std::lock_guard loading(loading_);
  end_model(name, false);
}

// With `loading_` held. A model whose folder is gone leaves no entry: it is loaded as a new one if it comes back. In
// the mode explicit the entry stays, since it says that the model is wanted.
void Repository::end_model(const std::string& name, bool is_gone) {
  Versions old;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    const bool is_loaded = found != entries_.end() && !found->second.versions.empty();
    if (!is_loaded && !is_gone)
      throw Failure(Reason::not_found, fmt::format("model '{}' is not loaded", base::shown(name)));
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    const bool stays = is_gone && control_.mode == ModelControl::by_request && entry.wanted;
    if (stays && std::exchange(entry.reason, kGone) == kGone && !is_loaded) return;  // it was gone before
    old = std::exchange(entry.versions, {});
    entry.lingering.clear();
    entry.signature.clear();
    if (!stays) entry.reason = "unloaded", entry.wanted = false;
    if (is_gone && !stays) entries_.erase(found);
  }
  {
    const std::lock_guard lock(retired_mutex_);
    for (Retired& retired : retired_) retired.keeps_sequences &= retired.servable->info().name != name;
  }
  retire(std::move(old), false);
  log(Level::info, is_gone ? "the folder of a model is gone" : "model unloaded", {{"model", name}});
}

void Repository::refresh() {
  if (control_.mode == ModelControl::none) return;
  const std::vector<std::string> names = names_to_refresh();
  for (const std::string& name : names) {
    const std::string signature = signature_of(name);
    std::optional<std::string> config;
    {
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(name);
      if (found != entries_.end() && (found->second.signature == signature || !found->second.wanted)) continue;
      if (found != entries_.end()) config = found->second.config;
    }
    try {
      load(name, config);
    } catch (const Failure&) {
    }
  }
  std::vector<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (std::ranges::find(names, name) == names.end()) gone.push_back(name);
    }
  }
  const std::lock_guard loading(loading_);
  for (const std::string& name : gone) end_model(name, true);
}

std::shared_ptr<Servable> Repository::find(const std::string& name, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.versions.empty()) {
    if (loads_all_) throw Failure(Reason::unavailable, "the models are being loaded", 1);
    throw Failure(Reason::not_found, fmt::format("model '{}' is not loaded", base::shown(name)));
  }
  const Versions& versions = found->second.versions;
  if (version.empty() || version == "-1") return versions.rbegin()->second;
  const auto wanted = versions.find(version_number(version));
  if (wanted == versions.end())
    throw Failure(Reason::not_found,
                  fmt::format("model '{}' has no version '{}'", base::shown(name), base::shown(version)));
  return wanted->second;
}

std::vector<std::shared_ptr<Servable>> Repository::versions(const std::string& name) const {
  find(name);
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Servable>> found;
  for (const auto& [number, servable] : entries_.at(name).versions) found.push_back(servable);
  return found;
}

std::vector<std::shared_ptr<Servable>> Repository::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Servable>> found;
  for (const auto& [name, entry] : entries_) {
    for (const auto& [number, servable] : entry.versions) found.push_back(servable);
  }
  return found;
}

std::vector<ModelState> Repository::index() const {
  std::vector<ModelState> states;
  std::vector<std::string> names;
  try {
    names = names_on_disk();
  } catch (const fs::filesystem_error&) {
    // The folder is away for a moment; what is loaded is served on.
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    // The reason is that of what could not be loaded in its place.
    const std::string reason = entry.reason.empty() ? "" : "not loaded anew: " + entry.reason;
    for (const auto& [number, servable] : entry.versions)
      states.push_back({name, std::to_string(number), "READY", reason});
    if (entry.versions.empty()) states.push_back({name, "1", "UNAVAILABLE", entry.reason});
  }
  for (const std::string& name : names) {
    if (!entries_.contains(name)) states.push_back({name, "", "", ""});
  }
  return states;
}

void Repository::drain() {
  std::map<std::string, Entry> entries;
  {
    const std::lock_guard loading(loading_);
    const std::lock_guard lock(mutex_);
    for (auto& [name, entry] : entries_) {
      // Ensembles first: their requests need the other models.
      entries[name].versions = entry.versions;
    }
  }
  for (const bool ensembles : {true, false}) {
    for (auto& [name, entry] : entries) {
      for (auto& [number, servable] : entry.versions) {
        if (servable->info().settings.is_ensemble() == ensembles) servable->drain();
      }
    }
  }
}

}  // namespace tessera::serve
