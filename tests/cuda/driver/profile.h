// The devices that the simulated driver shows, and the settings of a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/driver/driver_types.h"

namespace tessera::cuda::driver {

// The limits of one model of GPU. Sizes in bytes, clocks in kHz.
struct Profile {
  int capability;
  const char* name;
  int multiprocessors;
  int threads_per_multiprocessor;
  int shared_bytes_per_multiprocessor;
  int shared_bytes_per_block;  // with the opt-in attribute of a function
  int l2_bytes;
  int clock;
  int memory_clock;
  int memory_bus_bits;
  int copy_engines;
};

// Null for a capability without a profile.
const Profile* find_profile(int capability);
// The value of a CUdevice_attribute; 0 for those that the simulated devices lack.
int attribute_of(const Profile& profile, int ordinal, int attribute);

// "Without the opt-in, a kernel has 48 KiB": CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK.
inline constexpr unsigned kSharedBytesPerBlock = 48 * 1024;

// The call number `call` (from 1) of an entry point fails with `result`.
struct PlannedFault {
  std::string entry;
  std::uint64_t call = 1;
  Result result = kOutOfMemory;
};

struct Settings {
  int devices = 1;
  int capability = 80;
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;
  std::uint64_t seed = 0;
  std::vector<PlannedFault> faults;
};

// Reads "devices=1,capability=80,memory=4GiB,seed=3,fail=cuMemCreate:2" (control.h). Returns what is wrong, or "".
std::string read_settings(const std::string& text, Settings& settings);

}  // namespace tessera::cuda::driver
