// The state of the simulated driver. Entry points hold its mutex from begin to end, so nothing here is synchronised,
// and kernels of all devices run on the thread of the host call that needs their results.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/control.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/profile.h"

namespace tessera::cuda::driver {

// An entry point ends with this result.
struct Failure {
  Result result;
};
inline void require(bool condition, Result otherwise = kInvalidValue) {
  if (!condition) throw Failure{otherwise};
}

// CUresult values that driver_types.h does not name, because the backend does not.
inline constexpr Result kInvalidImage = static_cast<Result>(200), kInvalidHandle = static_cast<Result>(400),
                        kIllegalState = static_cast<Result>(401), kContextDestroyed = static_cast<Result>(709),
                        kAlreadyRegistered = static_cast<Result>(712), kNotRegistered = static_cast<Result>(713);
// Results of which the manual says: "This leaves the process in an inconsistent state and any further CUDA work will
// return the same error."
bool is_sticky(Result result);

class Simulator {
 public:
  static Simulator& get();

  void configure(const Settings& settings);

  // Counts the call and returns the fault that a test planned for it, or kSuccess.
  Result begin_call(const char* entry);

  void require_initialised() const { require(initialised, kNotInitialised); }
  // The current context of the calling thread; fails without one, and with the error that has spoilt it.
  ContextObject& context();
  ContextObject& context_of(DeviceHandle device);
  // The objects of handles that a caller gave. A null stream is the legacy stream of the current context.
  StreamObject& stream(StreamHandle handle);
  EventObject& event(EventHandle handle);

  SimulatedCudaCounters counters() const;
  const Profile& profile() const { return *find_profile(settings.capability); }
  // A number in [0, count), by the seed; 0 for the seed 0.
  std::size_t choose(std::size_t count) { return settings.seed == 0 ? 0 : random() % count; }

  std::mutex mutex;
  Settings settings;
  bool initialised = false;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<ContextObject>> contexts;  // the primary context of each device
  DeviceMemory memory;
  PinnedMemory pinned;
  std::map<StreamHandle, std::unique_ptr<StreamObject>> streams;  // destroyed ones too while they have work
  std::map<EventHandle, std::unique_ptr<EventObject>> events;
  std::map<ModuleHandle, std::unique_ptr<ModuleObject>> modules;
  std::map<GraphHandle, std::unique_ptr<GraphObject>> graphs;
  std::map<GraphExecHandle, std::unique_ptr<GraphExecObject>> recordings;
  std::uint64_t next_number = 1;  // of streams, in the order of their creation
  std::uint64_t calls = 0, executed = 0;
  std::map<std::string, std::uint64_t, std::less<>> calls_of;
  double host_time_us = 0;  // virtual
  std::string last_fault;
};

// Sets or reads the context that is current on the calling thread; null for none.
void set_current_context(ContextHandle context);
ContextHandle current_context();

// Runs the body of an entry point under the lock, with the fault that a test planned for this call instead.
template <class Body>
Result entry(const char* name, const Body& body) {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  if (const Result planned = simulator.begin_call(name); planned != kSuccess) return planned;
  try {
    body(simulator);
  } catch (const Failure& failure) {
    return failure.result;
  }
  return kSuccess;
}

// The same for entry points that release something. A planned fault stands for "this function may also return error
// codes from previous, asynchronous launches": the thing is released all the same. So it is where the context is
// spoilt.
template <class Body>
Result release_entry(const char* name, const Body& body) {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  const Result planned = simulator.begin_call(name);
  try {
    body(simulator);
  } catch (const Failure& failure) {
    return failure.result;
  }
  return planned;
}

}  // namespace tessera::cuda::driver
