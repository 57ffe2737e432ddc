// The hardware of a device, independent of its vendor: what kernels, passes, tuning and the scheduler decide by.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace tessera::cost {
struct DeviceProfile;
}

namespace tessera::backends {

// NVIDIA's version of the instruction set; 0.0 for devices of others.
struct ComputeCapability {
  int major = 0, minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

// The number formats whose matrix products the device computes by instructions of its own. tf32 is stored as float32
// and multiplied with 10 bits of fraction; f8 is both kinds of 8-bit floats.
struct NativeProducts {
  bool f64 = false, f32 = false, tf32 = false, f16 = false, bf16 = false, f8 = false, int8 = false, int4 = false;
  bool operator==(const NativeProducts&) const = default;
};

// A count or size of 0, and an empty text, means that it is not known or that the device has nothing of the kind.
struct DeviceProperties {
  int ordinal = 0;              // among the devices of its kind
  std::string product;          // "NVIDIA H100 SXM5 80 GB"
  std::string uuid;             // "GPU-1c3f…"; the same device has it in each process and after each start
  std::string instruction_set;  // that its kernels are compiled for: "avx512+vnni+bf16", "sm_90"
  std::int64_t memory_bytes = 0;
  ComputeCapability compute_capability;
  int multiprocessors = 0;                         // a CPU: cores that this process may use
  int warp_size = 1;                               // threads that execute an instruction together
  std::int64_t shared_memory_per_block_bytes = 0;  // with the opt-in that kernels for large blocks make
  std::int64_t shared_memory_per_multiprocessor_bytes = 0;
  int registers_per_block = 0, registers_per_multiprocessor = 0;  // of 32 bits
  std::int64_t l2_bytes = 0;
  int max_threads_per_block = 0;
  int copy_engines = 0;  // copies between host and device that run beside kernels and beside each other
  int streams = 1;       // among which independent kernels are worth dividing; 1: they run one after the other
  std::int64_t allocation_alignment_bytes = 64;  // of what DeviceMemory::allocate returns
  std::int64_t vector_alignment_bytes = 1;       // of the longest load or store of one thread
  NativeProducts native_products;
  // Whether `tessera calibrate` measures the device's rates.
  bool is_calibrated = false;
  // The rates for the cost model; null: not known before `tessera calibrate`. It lives as long as the device.
  const cost::DeviceProfile* profile = nullptr;
};

// "f32, tf32, f16"; "none" if there are none.
std::string names_of(const NativeProducts& products);

}  // namespace tessera::backends
