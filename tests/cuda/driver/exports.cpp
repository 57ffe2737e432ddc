// cuGetProcAddress, and the functions that steer the simulation.
#include "driver/exports.h"

#include <cstring>
#include <string_view>

#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

struct Export {
  std::string_view name;
  void* function;
};

constexpr int kFirstVersion = 2000;

const Export kExports[] = {
#define TESSERA_CUDA_ENTRY(name, parameters) {#name, reinterpret_cast<void*>(&name)},
    TESSERA_CUDA_ENTRIES(TESSERA_CUDA_ENTRY) TESSERA_CUDA_FURTHER_ENTRIES(TESSERA_CUDA_ENTRY)
#undef TESSERA_CUDA_ENTRY
};

const Export* find_export(std::string_view name) {
  for (const Export& candidate : kExports) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

}  // namespace

extern "C" {

// "If the requested symbol is not found, [...] CUDA_ERROR_NOT_FOUND", "CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND" (1), and a
// version before the function's is CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT (2): here, one before CUDA 2.0. Older
// versions of functions are not here; their parameters differ in the width of addresses, or not at all.
Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags, int* status) {
  if (name == nullptr || function == nullptr) return kInvalidValue;
  const Export* const found = find_export(name);
  *function = found == nullptr || version < kFirstVersion ? nullptr : found->function;
  if (status != nullptr) *status = found == nullptr ? 1 : version < kFirstVersion ? 2 : 0;
  return *function == nullptr ? kNotFound : kSuccess;
}

#define TESSERA_EXPORTED __attribute__((visibility("default")))

TESSERA_EXPORTED const char* tessera_simulated_cuda_configure(const char* text) {
  static std::string problem;
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  Settings settings;
  problem = read_settings(text == nullptr ? "" : text, settings);
  if (!problem.empty()) return problem.c_str();
  simulator.configure(settings);
  return nullptr;
}

TESSERA_EXPORTED int tessera_simulated_cuda_fail(const char* entry, std::uint64_t call, int result) {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  if (entry == nullptr || find_export(entry) == nullptr) return 1;
  simulator.settings.faults.push_back({entry, call, static_cast<Result>(result)});
  return 0;
}

TESSERA_EXPORTED void tessera_simulated_cuda_recover() {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  simulator.settings.faults.clear();
  for (const auto& context : simulator.contexts) context->spoilt = kSuccess;
}

TESSERA_EXPORTED void tessera_simulated_cuda_set_seed(std::uint64_t seed) {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  simulator.settings.seed = seed;
  simulator.random.seed(seed);
}

TESSERA_EXPORTED SimulatedCudaCounters tessera_simulated_cuda_counters() {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  return simulator.counters();
}

TESSERA_EXPORTED std::uint64_t tessera_simulated_cuda_calls(const char* entry) {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  const auto found = simulator.calls_of.find(std::string_view(entry));
  return found == simulator.calls_of.end() ? 0 : found->second;
}

TESSERA_EXPORTED const char* tessera_simulated_cuda_last_fault() {
  Simulator& simulator = Simulator::get();
  const std::lock_guard lock(simulator.mutex);
  return simulator.last_fault.c_str();
}

}  // extern "C"

}  // namespace tessera::cuda::driver
