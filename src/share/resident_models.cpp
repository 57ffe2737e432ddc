#include "tessera/resident_models.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/numbers/units.h"
#include "runtime/memory/memory.h"

namespace tessera {
namespace share {

struct ResidentEntry {
  std::string name;
  std::unique_ptr<Session> session;  // null while it is loaded, and after an error
  std::exception_ptr error;
  bool loading = true, forgotten = false;
  std::int64_t bytes = 0, users = 0, uses = 0, load_ns = 0;
  double priority = 0;         // the least goes first
  std::uint64_t last_use = 0;  // among equals
};

struct ResidentModelState {
  using Entry = std::shared_ptr<ResidentEntry>;
  using Lock = std::unique_lock<std::mutex>;

  ResidentModelState(ModelLoader given, const ResidentModelOptions& how) : loader(std::move(given)), options(how) {}

  const ModelLoader loader;
  const ResidentModelOptions options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::string, std::int64_t, std::less<>> least_load_ns;  // of each model that was ever loaded
  std::int64_t bytes = 0;
  double inflation = 0;  // the priority of what was evicted last: what is used now counts from there
  std::uint64_t uses = 0;
  ResidentModelReport counts;

  void note_use(ResidentEntry& entry) {
    ++entry.uses;
    entry.last_use = ++uses;
    rate(entry);
  }

  void rate(ResidentEntry& entry) const {
    const auto known = least_load_ns.find(entry.name);
    const double seconds = static_cast<double>(known != least_load_ns.end() ? known->second : 1) * 1e-9;
    const double size = static_cast<double>(std::max<std::int64_t>(entry.bytes, 1));
    entry.priority = inflation + static_cast<double>(entry.uses) * seconds / size;
  }

  void set_bytes(ResidentEntry& entry, std::int64_t now) {
    bytes += now - entry.bytes;
    entry.bytes = now;
    counts.peak_bytes = std::max(counts.peak_bytes, bytes);
  }

  Entry least_wanted() const {
    Entry least;
    for (const auto& [name, entry] : entries) {
      if (entry->loading || entry->users > 0) continue;
      if (least == nullptr || std::pair(entry->priority, entry->last_use) < std::pair(least->priority, least->last_use))
        least = entry;
    }
    return least;
  }

  // Its memory is free when this returns; the lock is given up meanwhile.
  void take_down(Lock& lock, const Entry& entry) {
    std::unique_ptr<Session> session = std::move(entry->session);
    lock.unlock();
    session.reset();
    lock.lock();
    set_bytes(*entry, 0);
    changed.notify_all();
  }

  // Evicts until `more` bytes fit, as far as models that nobody uses go. Returns whether they fit.
  bool make_room(Lock& lock, std::int64_t more) {
    while (more > options.budget_bytes - bytes) {
      const Entry victim = least_wanted();
      if (victim == nullptr) return false;
      inflation = std::max(inflation, victim->priority);
      ++counts.evictions;
      entries.erase(victim->name);
      take_down(lock, victim);
    }
    return true;
  }

  std::string held() const {
    std::string names;
    for (const auto& [name, entry] : entries) {
      if (entry->users > 0 || entry->loading)
        names += (names.empty() ? "'" : ", '") + name + "' " + base::format_bytes(entry->bytes);
    }
    return names.empty() ? "models that were forgotten" : names;
  }

  // Sets the bytes aside for the entry.
  void reserve(Lock& lock, ResidentEntry& entry, std::int64_t needed) {
    require(needed <= options.budget_bytes, ErrorKind::over_budget,
            "model '{}' needs {}, but the budget of all models is {}", entry.name, base::format_bytes(needed),
            base::format_bytes(options.budget_bytes));
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options.wait_ns);
    while (!make_room(lock, needed - entry.bytes)) {
      if (changed.wait_until(lock, until) == std::cv_status::no_timeout) continue;
      if (make_room(lock, needed - entry.bytes)) break;
      fail(ErrorKind::over_budget, "model '{}' needs {}, but of the budget of {} models in use hold {}: {}", entry.name,
           base::format_bytes(needed), base::format_bytes(options.budget_bytes),
           base::format_bytes(bytes - entry.bytes), held());
    }
    set_bytes(entry, needed);
  }

  void load(Lock& lock, const Entry& entry) {
    lock.unlock();
    const std::int64_t expected = std::max<std::int64_t>(0, loader.expected_bytes(entry->name));
    lock.lock();
    reserve(lock, *entry, expected);
    lock.unlock();
    const std::int64_t begin = Clock::steady().now_ns();
    std::unique_ptr<Session> session = loader.load(entry->name);
    const std::int64_t load_ns = Clock::steady().now_ns() - begin;
    const std::int64_t actual = bytes_of(*session);
    lock.lock();
    entry->load_ns = load_ns;
    // A busy machine makes single loads long; the shortest says what a load takes.
    const auto least = least_load_ns.try_emplace(entry->name, load_ns).first;
    least->second = std::max<std::int64_t>(1, std::min(least->second, load_ns));
    try {
      reserve(lock, *entry, actual);
    } catch (...) {
      lock.unlock();
      session.reset();
      lock.lock();
      throw;
    }
    entry->session = std::move(session);
    ++counts.loads;
    counts.load_ns += load_ns;
  }

  static std::int64_t bytes_of(const Session& session) {
    const MemoryUse use = session.memory();
    return use.weights_bytes + use.packed_weights_bytes + use.variables_bytes + use.plans_bytes;
  }

  Entry acquire(const std::string& name) {
    Lock lock(mutex);
    if (const auto found = entries.find(name); found != entries.end()) {
      const Entry entry = found->second;
      ++entry->users;
      ++(entry->loading ? counts.joined : counts.hits);
      changed.wait(lock, [&] { return !entry->loading; });
      if (entry->error != nullptr) {
        --entry->users;
        std::rethrow_exception(entry->error);
      }
      note_use(*entry);
      return entry;
    }
    const auto entry = std::make_shared<ResidentEntry>();
    entry->name = name;
    entry->users = 1;
    entries.emplace(name, entry);
    try {
      load(lock, entry);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      end_in_error(*entry, std::current_exception());
      throw;
    }
    entry->loading = false;
    note_use(*entry);
    changed.notify_all();
    return entry;
  }

  void end_in_error(ResidentEntry& entry, const std::exception_ptr& error) {
    ++counts.failures;
    --entry.users;
    entry.error = error;
    entry.loading = false;
    set_bytes(entry, 0);
    const auto found = entries.find(entry.name);
    if (found != entries.end() && found->second.get() == &entry) entries.erase(found);
    changed.notify_all();
  }

  void release(const Entry& entry) noexcept {
    const std::int64_t now = bytes_of(*entry->session);
    Lock lock(mutex);
    --entry->users;
    set_bytes(*entry, now);
    rate(*entry);
    if (entry->forgotten && entry->users == 0) take_down(lock, entry);
    make_room(lock, 0);
    changed.notify_all();
  }
};

}  // namespace share

ResidentModel::ResidentModel(std::shared_ptr<share::ResidentModelState> state,
                             std::shared_ptr<share::ResidentEntry> entry)
    : state_(std::move(state)), entry_(std::move(entry)) {}

ResidentModel::~ResidentModel() {
  if (entry_ != nullptr) state_->release(entry_);
}

ResidentModel::ResidentModel(ResidentModel&& other) noexcept
    : state_(std::move(other.state_)), entry_(std::move(other.entry_)) {}

ResidentModel& ResidentModel::operator=(ResidentModel&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(entry_, other.entry_);
  return *this;
}

const std::string& ResidentModel::name() const {
  return entry_->name;
}

Session& ResidentModel::session() const {
  return *entry_->session;
}

ResidentModels::ResidentModels(ModelLoader loader, const ResidentModelOptions& options) {
  require(options.budget_bytes > 0, ErrorKind::invalid_argument, "the budget of all models is {} bytes, expected more",
          options.budget_bytes);
  if (options.standby_arena_bytes > 0) runtime::arena_blocks().keep_ready(options.standby_arena_bytes);
  state_ = std::make_shared<share::ResidentModelState>(std::move(loader), options);
}

ResidentModels::~ResidentModels() {
  if (state_ != nullptr && state_->options.standby_arena_bytes > 0)
    runtime::arena_blocks().keep_ready(-state_->options.standby_arena_bytes);
}
ResidentModels::ResidentModels(ResidentModels&&) noexcept = default;
ResidentModels& ResidentModels::operator=(ResidentModels&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

ResidentModel ResidentModels::acquire(const std::string& name) {
  return {state_, state_->acquire(name)};
}

void ResidentModels::forget(const std::string& name) {
  share::ResidentModelState::Lock lock(state_->mutex);
  const auto found = state_->entries.find(name);
  if (found == state_->entries.end()) return;
  const share::ResidentModelState::Entry entry = found->second;
  state_->entries.erase(found);
  entry->forgotten = true;
  if (entry->users == 0) state_->take_down(lock, entry);
}

ResidentModelReport ResidentModels::report() const {
  const std::lock_guard lock(state_->mutex);
  ResidentModelReport report = state_->counts;
  report.bytes = state_->bytes;
  for (const auto& [name, entry] : state_->entries) {
    if (!entry->loading) report.models.push_back({name, entry->bytes, entry->users, entry->uses, entry->load_ns});
  }
  return report;
}

}  // namespace tessera
