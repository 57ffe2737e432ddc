// Many models under one memory budget: a model is loaded when it is asked for and stays until others need its memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/session.h"

namespace tessera {

// Functions that create sessions. Both are called without a lock, from the threads that acquire models, and for
// different models at the same time.
struct ModelLoader {
  // Returns the bytes that the model is expected to hold, such as the size of its file. They are set aside before it is
  // loaded; afterwards the memory that its session really holds counts in their place.
  std::function<std::int64_t(const std::string& name)> expected_bytes;
  std::function<std::unique_ptr<Session>(const std::string& name)> load;
};

struct ResidentModelOptions {
  std::int64_t budget_bytes = 0;  // limit for all models together, including those in use
  // How long acquire() waits for models in use to be released where they hold the memory that it needs.
  std::int64_t wait_ns = 10'000'000'000;
  // Memory for intermediate values that is set up at once and kept ready, so that the first run after a quiet time
  // finds it. It is no part of the budget. 0: none.
  std::int64_t standby_arena_bytes = 0;
};

struct ResidentModelReport {
  std::int64_t hits = 0;    // acquisitions of a model that was resident
  std::int64_t loads = 0;   // loads that succeeded
  std::int64_t joined = 0;  // acquisitions that waited for a load that another one had begun
  std::int64_t failures = 0, evictions = 0;
  std::int64_t bytes = 0, peak_bytes = 0;  // held or set aside
  std::int64_t load_ns = 0;                // duration of all loads together
  struct Entry {
    std::string name;
    std::int64_t bytes = 0, users = 0, uses = 0, load_ns = 0;
  };
  std::vector<Entry> models;  // the resident models, by name
};

namespace share {
struct ResidentModelState;
struct ResidentEntry;
}  // namespace share

// Keeps its model resident for as long as it lives. May outlive the ResidentModels that it came from.
class ResidentModel {
 public:
  ResidentModel() = default;  // none
  ~ResidentModel();
  ResidentModel(ResidentModel&&) noexcept;
  ResidentModel& operator=(ResidentModel&&) noexcept;

  explicit operator bool() const { return entry_ != nullptr; }
  const std::string& name() const;
  Session& session() const;

 private:
  friend class ResidentModels;
  ResidentModel(std::shared_ptr<share::ResidentModelState> state, std::shared_ptr<share::ResidentEntry> entry);
  std::shared_ptr<share::ResidentModelState> state_;
  std::shared_ptr<share::ResidentEntry> entry_;
};

// Thread-safe.
class ResidentModels {
 public:
  // Throws Error(invalid_argument) for a budget of 0 or less, over_budget where there is no memory for the standby.
  ResidentModels(ModelLoader loader, const ResidentModelOptions& options);
  ~ResidentModels();
  ResidentModels(ResidentModels&&) noexcept;
  ResidentModels& operator=(ResidentModels&&) noexcept;

  // The model, loaded now unless it is there. Who asks for a model that is being loaded waits for that load and has its
  // error. Models that nobody uses are evicted where there is need: first those whose frequency of use times time to
  // load (the shortest so far), for each byte, is least, and among equals those not used for longest
  // (GreedyDual-Size-Frequency: Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching
  // Policy", HPL-98-69R1, 1998). A model in use never is.
  //
  // Throws Error(over_budget) for a model larger than the budget, and where models in use hold its memory for longer
  // than wait_ns; and whatever the loader throws. A session may grow after it was loaded, as plans are made: what it
  // holds is looked at each time that a handle is released, and others make room for it then.
  ResidentModel acquire(const std::string& name);
  // Lets the next acquire() load the model anew, from a file that has changed, say. Handles keep what they have, whose
  // bytes count until the last one is released. Nothing happens for a model that is not there.
  void forget(const std::string& name);

  ResidentModelReport report() const;

 private:
  std::shared_ptr<share::ResidentModelState> state_;
};

}  // namespace tessera
