// Devices and the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/export.h"

namespace tessera {

// A device that a session can run on. A count or size of 0, and an empty text, means that it is not known or that the
// device has nothing of the kind.
struct DeviceDescription {
  std::string name;             // for SessionOptions::device: "cpu", "simulated:h100-sxm"
  std::string product;          // "NVIDIA H100 SXM5 80 GB", or the model of the processor
  std::string uuid;             // a name that stays the same when devices are numbered anew
  std::string instruction_set;  // "avx512+vnni+bf16", "sm_90"
  int ordinal = 0;              // among the devices of its kind
  bool computes_in_host_memory = true;
  std::int64_t memory_bytes = 0;
  std::string compute_capability;  // "9.0"
  int multiprocessors = 0;         // of a CPU: the cores that this process may use
  int warp_size = 1;
  std::int64_t shared_memory_per_block_bytes = 0, shared_memory_per_multiprocessor_bytes = 0, l2_bytes = 0;
  int registers_per_multiprocessor = 0;  // of 32 bits
  int max_threads_per_block = 0;
  int copy_engines = 0;
  std::string native_products;  // the number formats of matrix products that the hardware has: "f32, bf16, int8"
  std::string profile;          // the name of its rates for `tessera explain`
};

// The forms of names for SessionOptions::device: "cpu", "reference", "null", and "simulated:PROFILE" for any device
// that there is a profile of, such as "simulated:h100-sxm" (docs/simulated.md). A device is named by its kind (the
// first of it), by kind and number ("KIND:1") or by its UUID.
TESSERA_API std::vector<std::string> device_names();
// The devices of this machine, and the simulated ones that this process has used so far.
TESSERA_API std::vector<DeviceDescription> devices();
// Describes the device of that name. Throws Error(invalid_argument), which lists the forms of names.
TESSERA_API DeviceDescription describe_device(const std::string& name);
// The processor, its instruction sets as Tessera uses them, and the cores this process may use, for people:
// "AMD EPYC, avx512+vnni+bf16, 2 cores".
TESSERA_API std::string describe_machine();

}  // namespace tessera
