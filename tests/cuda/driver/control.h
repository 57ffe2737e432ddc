// How tests steer the simulated driver: functions that libcuda.so.1 of this folder exports beside those of the driver
// API. Programs that cannot call them set TESSERA_SIMULATED_CUDA, whose text has the form of `configure` below.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// What exists at the moment. All but `calls` and `executed` are zero when everything was released.
struct SimulatedCudaCounters {
  std::uint64_t calls;         // of all entry points, since the last reset
  std::uint64_t executed;      // operations of streams and graphs that took effect, since the last reset
  std::uint64_t pending;       // operations in queues
  std::uint64_t streams;       // not destroyed
  std::uint64_t events;        // not destroyed
  std::uint64_t modules;       // not unloaded
  std::uint64_t graphs;        // not destroyed
  std::uint64_t recordings;    // instantiated graphs that were not destroyed
  std::uint64_t reservations;  // ranges of device addresses that were not freed
  std::uint64_t mappings;      // not unmapped
  std::uint64_t allocations;   // that hold memory of a device
  std::uint64_t pinned;        // blocks of pinned host memory
  std::uint64_t contexts;      // primary contexts that somebody retains
};

// Forgets everything as if the process began anew, and reads the settings: a list of name=value with commas between.
// Null or "" chooses the defaults.
//   devices=1            the number of devices; 0: cuInit finds none
//   capability=80        10 × major + minor: 75, 80, 86, 89, 90, 100 or 120
//   memory=4GiB          the memory of each device, in bytes or with KiB, MiB, GiB
//   seed=0               0: operations run only when something waits for them, in the order of their submission; other
//                        seeds run any operation that may run, in a shuffled order
//   fail=cuMemCreate:2   the second call of this entry point from here on fails; fail=cuMemCreate:2:719 with this
//                        CUresult, otherwise with 2 (out of memory). May be given several times
// Returns null, or what is wrong with the text (valid until the next call).
const char* tessera_simulated_cuda_configure(const char* settings);

// Adds a fault, as `fail` above. Returns 0, or 1 for an unknown name.
int tessera_simulated_cuda_fail(const char* entry, std::uint64_t call, int result);
// Forgets all faults, and the errors that have spoilt contexts; nothing else.
void tessera_simulated_cuda_recover();
void tessera_simulated_cuda_set_seed(std::uint64_t seed);

SimulatedCudaCounters tessera_simulated_cuda_counters();
// The calls of one entry point since the last reset.
std::uint64_t tessera_simulated_cuda_calls(const char* entry);
// What the last operation that failed on the device did, or "" (valid until the next fault).
const char* tessera_simulated_cuda_last_fault();
}
