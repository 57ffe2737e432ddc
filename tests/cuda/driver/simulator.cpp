#include "driver/simulator.h"

#include <cstdio>
#include <cstdlib>

#include "driver/capture.h"
#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

thread_local ContextHandle current = nullptr;

}  // namespace

void set_current_context(ContextHandle context) {
  current = context;
}
ContextHandle current_context() {
  return current;
}

bool is_sticky(Result result) {
  const int number = result;
  return number == kIllegalAddress || number == kLaunchTimeout || number == 226 || number == 710 ||
         (number >= 714 && number <= kLaunchFailed) || number == 721 || number == 911;
}

Simulator& Simulator::get() {
  // Never destroyed: threads may call until the process ends.
  static Simulator& simulator = *[] {
    auto* const made = new Simulator;
    Settings settings;
    const char* const text = std::getenv("TESSERA_SIMULATED_CUDA");
    const std::string problem = read_settings(text == nullptr ? "" : text, settings);
    if (!problem.empty()) {
      std::fprintf(stderr, "TESSERA_SIMULATED_CUDA: %s\n", problem.c_str());
      std::abort();
    }
    made->configure(settings);
    return made;
  }();
  return simulator;
}

void Simulator::configure(const Settings& chosen) {
  settings = chosen;
  initialised = false;
  random.seed(chosen.seed);
  recordings.clear();
  graphs.clear();
  modules.clear();
  events.clear();
  streams.clear();
  contexts.clear();
  set_current_context(nullptr);  // a context that is made anew may have the address of one that is gone
  memory.reset(chosen.devices, chosen.memory_bytes);
  pinned.reset();
  for (int device = 0; device < chosen.devices; ++device) {
    auto context = std::make_unique<ContextObject>();
    context->device = device;
    context->legacy_stream = std::make_unique<StreamObject>();
    context->legacy_stream->context = context.get();
    contexts.push_back(std::move(context));
  }
  calls = executed = 0;
  calls_of.clear();
  host_time_us = 0;
  next_number = 1;
  last_fault.clear();
}

Result Simulator::begin_call(const char* entry) {
  ++calls;
  host_time_us += 1;
  const auto [found, added] = calls_of.try_emplace(entry, 0);
  ++found->second;
  for (PlannedFault& fault : settings.faults) {
    if (fault.entry != entry || fault.call == 0 || --fault.call != 0) continue;
    for (const auto& context : contexts) {
      if (is_sticky(fault.result) && context.get() == current) context->spoilt = fault.result;
    }
    return fault.result;
  }
  return kSuccess;
}

// "This most frequently indicates that there is no context bound to the current thread."
ContextObject& Simulator::context() {
  require_initialised();
  for (const auto& candidate : contexts) {
    if (candidate.get() != current) continue;
    require(candidate->retained > 0, kContextDestroyed);
    require(candidate->spoilt == kSuccess, candidate->spoilt);
    return *candidate;
  }
  throw Failure{kInvalidContext};
}

ContextObject& Simulator::context_of(DeviceHandle device) {
  require(device >= 0 && static_cast<std::size_t>(device) < contexts.size(), kInvalidDevice);
  return *contexts[static_cast<std::size_t>(device)];
}

StreamObject& Simulator::stream(StreamHandle handle) {
  // 1 is CU_STREAM_LEGACY.
  if (handle == nullptr || reinterpret_cast<std::uintptr_t>(handle) == 1) return *context().legacy_stream;
  const auto found = streams.find(handle);
  require(found != streams.end() && !found->second->destroyed, kInvalidHandle);
  require(found->second->context->spoilt == kSuccess, found->second->context->spoilt);
  return *found->second;
}

EventObject& Simulator::event(EventHandle handle) {
  const auto found = events.find(handle);
  require(found != events.end(), kInvalidHandle);
  require(found->second->context->spoilt == kSuccess, found->second->context->spoilt);
  return *found->second;
}

SimulatedCudaCounters Simulator::counters() const {
  SimulatedCudaCounters counters{};
  counters.calls = calls;
  counters.executed = executed;
  for (const auto& [handle, stream] : streams) {
    counters.pending += stream->queue.size();
    if (!stream->destroyed) ++counters.streams;
  }
  for (const auto& context : contexts) {
    counters.pending += context->legacy_stream->queue.size();
    if (context->retained > 0) ++counters.contexts;
  }
  counters.events = events.size();
  counters.modules = modules.size();
  counters.graphs = graphs.size();
  counters.recordings = recordings.size();
  counters.reservations = memory.reservations();
  counters.mappings = memory.mappings();
  counters.allocations = memory.allocations();
  counters.pinned = pinned.blocks();
  return counters;
}

}  // namespace tessera::cuda::driver
