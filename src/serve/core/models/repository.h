// The models of a folder: which are loaded, and the exchange of one version for another while requests run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "serve/core/control/model_control.h"
#include "serve/core/models/image_memory.h"
#include "serve/core/models/response_cache.h"
#include "serve/core/models/servable.h"
#include "serve/core/models/version_shares.h"
#include "serve/core/operations/timeline.h"
#include "tessera/share.h"

namespace tessera::serve {

// A line of the index.
struct ModelState {
  std::string name, version, state, reason;  // state: "READY", "UNAVAILABLE", or "" for a model that was never loaded
};

// Either a folder of models in Triton's layout (NAME/config.pbtxt or config.toml, NAME/VERSION/model.onnx or
// model.tsr), or one model file, which is served as version 1 under its name without the ending. Thread-safe.
class Repository {
 public:
  static constexpr std::int64_t kUsualCacheBytes = std::int64_t{64} << 20;

  // Loads nothing. The cache is of the answers of models that ask for one. Throws Error(not_found, io) when there is
  // nothing at the path.
  Repository(Arbiter& arbiter, const std::filesystem::path& path, std::int64_t cache_bytes = kUsualCacheBytes,
             ControlOptions control = {});
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  // Loads the models that the control mode wants at the start; one that cannot be loaded stands in the index with the
  // reason.
  void load_all();
  // Loads the model, or loads it anew: requests in flight and sequences finish on the old one. In the mode explicit, an
  // ensemble brings the models that it needs and that are not loaded. `config`: Triton's configuration as JSON text,
  // which holds instead of the model's file, also when its files change, until it is loaded without one. Throws
  // Failure: not_found for a name that the repository has not, bad_request for a model that cannot be loaded; what was
  // loaded stays then.
  void load(const std::string& name, const std::optional<std::string>& config = std::nullopt);
  // Throws Failure(not_found) for a model that is not loaded.
  void unload(const std::string& name);
  // Throws Failure(unsupported) where the control mode lets no request load or unload models.
  void check_takes_requests() const;
  // The models that a loaded ensemble has as its steps; none for other models.
  std::vector<std::string> steps_of(const std::string& name) const;
  // Loads what has changed on disk, unloads what is gone, as far as the control mode takes changes.
  void refresh();

  // Throws Failure(not_found). Version "" is the highest.
  std::shared_ptr<Servable> find(const std::string& name, const std::string& version = "") const;
  std::vector<std::shared_ptr<Servable>> versions(const std::string& name) const;
  std::vector<std::shared_ptr<Servable>> all() const;
  std::vector<ModelState> index() const;
  bool is_ready() const;  // by the rule of the control options
  // Parts of the requests by version, with the sum 1; empty: the highest version has all. Throws Failure(not_found).
  std::map<std::int64_t, double> shares(const std::string& name) const;
  std::map<std::string, std::map<std::int64_t, double>> all_shares() const;  // of models that have some
  // Until the model is loaded anew. Throws Failure: not_found; bad_request for versions that are not loaded and for
  // numbers that are no parts.
  void set_shares(const std::string& name, const std::map<std::int64_t, double>& shares);
  const RunTimeline& timeline() const { return timeline_; }
  // The memory of the decoded images of all models.
  ImageMemory& images() { return images_; }
  CacheCounters cache_counters() const { return cache_.counters(); }
  // To the version that the call names, or that its sequence runs on. Throws Failure as Servable::submit and find do.
  void submit(const std::shared_ptr<Call>& call) const;
  // Ends the request's sequence where it is open: none of its requests comes any more.
  void end_sequence(const InferenceRequest& request) const;
  // Until load_all() has ended, a model that is not there is one that will come: Failure(unavailable).
  void expect_loading() { loads_all_ = true; }
  // load_all() ends after the model that it is loading. Thread-safe, without waiting.
  void stop_loading() { stops_loading_ = true; }
  // Ends all models when their requests are done.
  void drain();

 private:
  using Versions = std::map<std::int64_t, std::shared_ptr<Servable>>;
  struct Entry {
    Versions versions;
    // Older versions on which sequences run.
    std::vector<std::weak_ptr<Servable>> lingering;
    VersionShares shares;
    mutable std::uint64_t requests = 0;  // without a version
    std::string reason, signature;
    std::optional<std::string> config;  // of the request that loaded it, instead of the file
    bool wanted = true;                 // not unloaded by hand
  };

  struct Retired {
    std::shared_ptr<Servable> servable;
    bool keeps_sequences = false;  // ends when its sequences have
  };

  bool is_first_time(const std::string& told) const;
  void tell_of_ignored(const std::string& name, const ModelSettings& settings) const;
  std::vector<std::string> names_on_disk() const;
  std::vector<std::string> names_to_load() const;
  std::vector<std::string> names_to_refresh() const;
  ModelSettings settings_on_disk(const std::string& name) const;
  bool is_loaded(const std::string& name) const;
  void load_missing_steps(const std::string& name, const std::optional<std::string>& config);
  void load_missing_steps(const std::string& name, const ModelSettings& settings, std::set<std::string>& visited);
  void note_failure(const std::string& name, const std::string& reason, const std::string& signature);
  void load_alone(const std::string& name, const std::optional<std::string>& config);
  struct Loaded {
    Versions versions;
    VersionShares shares;
  };
  Loaded make_versions(const std::string& name, const std::optional<std::string>& config);
  void check_steps_take_batches(const std::string& name, const ModelSettings& settings) const;
  void check_no_circle(const std::string& name, const ModelSettings& settings) const;
  std::string version_for(const InferenceRequest& request) const;
  std::shared_ptr<Servable> route(const InferenceRequest& request) const;
  std::shared_ptr<Servable> make_model(const std::filesystem::path& folder, const std::string& version,
                                       const ModelSettings& settings) const;
  std::shared_ptr<Servable> make_version(const std::filesystem::path& folder, const std::string& version,
                                         const ModelSettings& settings);
  std::string signature_of(const std::string& name) const;
  void exchange(const std::string& name, Loaded loaded, const std::string& signature,
                const std::optional<std::string>& config);
  void end_model(const std::string& name, bool is_gone);
  void retire(Versions versions, bool keep_sequences);
  void reap();

  Arbiter& arbiter_;
  std::filesystem::path path_;
  const ControlOptions control_;
  bool single_ = false;
  ResponseCache cache_;  // this, the memory of images and the timeline live longer than the models
  ImageMemory images_;
  mutable RunTimeline timeline_;
  std::mutex loading_;  // one load at a time
  std::atomic<bool> stops_loading_{false}, loads_all_{false};
  mutable std::mutex told_mutex_;
  mutable std::set<std::string> told_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;

  std::mutex retired_mutex_;
  std::condition_variable retired_changed_;
  std::vector<Retired> retired_;
  bool stopping_ = false;
  std::thread reaper_;
};

}  // namespace tessera::serve
