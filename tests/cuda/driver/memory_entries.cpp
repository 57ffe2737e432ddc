// Entry points of memory, copies and fills.
#include "driver/capture.h"
#include "driver/exports.h"
#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

int device_of(const Simulator& simulator, const MemoryLocation& location) {
  require(location.type == kDeviceLocation);
  require(location.id >= 0 && location.id < simulator.settings.devices, kInvalidDevice);
  return location.id;
}

int checked_device(const Simulator& simulator, const AllocationProperties* properties) {
  require(properties != nullptr && properties->type == kPinnedAllocation && properties->requested_handle_types == 0);
  return device_of(simulator, properties->location);
}

Place device_place(const Simulator& simulator, DeviceAddress address) {
  require(simulator.memory.is_device_address(address));
  return {Place::Kind::device, address};
}

Place host_place(const Simulator& simulator, const void* address, std::size_t bytes) {
  require(address != nullptr && !simulator.memory.is_device_address(reinterpret_cast<std::uintptr_t>(address)));
  const std::uint64_t block = simulator.pinned.find(address, bytes);
  return {block == 0 ? Place::Kind::pageable : Place::Kind::pinned, reinterpret_cast<std::uintptr_t>(address), block};
}

void submit_copy(Simulator& simulator, StreamObject& stream, const Place& to, const Place& from, std::size_t bytes) {
  if (bytes > 0) submit(simulator, stream, Copy{to, from, bytes, nullptr});
}

// Copies without "Async" use the legacy stream, and return when it has done them.
void copy_and_wait(Simulator& simulator, const Place& to, const Place& from, std::size_t bytes) {
  StreamObject& stream = *simulator.context().legacy_stream;
  refuse_unsafe_call(simulator);
  submit_copy(simulator, stream, to, from, bytes);
  synchronize(simulator, stream);
}

void allocate_pinned(Simulator& simulator, void** address, std::size_t bytes) {
  simulator.context();
  require(address != nullptr && bytes > 0);
  refuse_unsafe_call(simulator);
  *address = simulator.pinned.allocate(bytes);
  require(*address != nullptr, kOutOfMemory);
}

}  // namespace

extern "C" {

Result cuMemGetInfo(std::size_t* free, std::size_t* total) {
  return entry("cuMemGetInfo", [&](Simulator& simulator) {
    require(free != nullptr && total != nullptr);
    *free = simulator.memory.free_bytes(simulator.context().device);
    *total = simulator.memory.bytes_per_device();
  });
}

Result cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties* properties, int option) {
  return entry("cuMemGetAllocationGranularity", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(bytes != nullptr && (option == 0 || option == 1));
    checked_device(simulator, properties);
    *bytes = kGranularity;
  });
}

Result cuMemAddressReserve(DeviceAddress* address, std::size_t bytes, std::size_t alignment, DeviceAddress wanted,
                           unsigned long long flags) {
  return entry("cuMemAddressReserve", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(address != nullptr && flags == 0);  // "Currently unused, must be zero"
    *address = simulator.memory.reserve(bytes, alignment);
  });
}

Result cuMemAddressFree(DeviceAddress address, std::size_t bytes) {
  return release_entry("cuMemAddressFree", [&](Simulator& simulator) {
    simulator.require_initialised();
    simulator.memory.free_reservation(address, bytes);
  });
}

Result cuMemCreate(AllocationHandle* handle, std::size_t bytes, const AllocationProperties* properties,
                   unsigned long long flags) {
  return entry("cuMemCreate", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(handle != nullptr && flags == 0);  // "flags for future use, must be zero now"
    const int device = checked_device(simulator, properties);
    *handle = simulator.memory.create(bytes, device);
  });
}

Result cuMemRelease(AllocationHandle handle) {
  return release_entry("cuMemRelease", [&](Simulator& simulator) {
    simulator.require_initialised();
    simulator.memory.release(handle);
  });
}

Result cuMemMap(DeviceAddress address, std::size_t bytes, std::size_t offset, AllocationHandle handle,
                unsigned long long flags) {
  return entry("cuMemMap", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(flags == 0);
    simulator.memory.map(address, bytes, offset, handle);
  });
}

// It does not wait for work that uses the memory: the manual does not promise that.
Result cuMemUnmap(DeviceAddress address, std::size_t bytes) {
  return release_entry("cuMemUnmap", [&](Simulator& simulator) {
    simulator.require_initialised();
    refuse_unsafe_call(simulator);
    simulator.memory.unmap(address, bytes);
  });
}

Result cuMemSetAccess(DeviceAddress address, std::size_t bytes, const AccessDescription* descriptions,
                      std::size_t count) {
  return entry("cuMemSetAccess", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(descriptions != nullptr && count > 0);
    for (std::size_t i = 0; i < count; ++i) {
      const int flags = descriptions[i].flags;
      require(flags == 0 || flags == 1 || flags == kReadsAndWrites);
      simulator.memory.set_access(address, bytes, device_of(simulator, descriptions[i].location), flags);
    }
  });
}

Result cuMemAlloc(DeviceAddress* address, std::size_t bytes) {
  return entry("cuMemAlloc", [&](Simulator& simulator) {
    const ContextObject& context = simulator.context();
    require(address != nullptr);
    refuse_unsafe_call(simulator);
    *address = simulator.memory.allocate(bytes, context.device);
  });
}

// Drivers wait for all work of the context here, and programs rely on it.
Result cuMemFree(DeviceAddress address) {
  return release_entry("cuMemFree", [&](Simulator& simulator) {
    simulator.require_initialised();
    if (address == 0) return;
    refuse_unsafe_call(simulator);
    run_all(simulator, nullptr);
    simulator.memory.free(address);
  });
}

// "The memory thus allocated is accessible by the device." Portable, mapped and write-combined memory do not differ
// here.
Result cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return entry("cuMemHostAlloc", [&](Simulator& simulator) {
    require(flags < 8);
    allocate_pinned(simulator, address, bytes);
  });
}

Result cuMemAllocHost(void** address, std::size_t bytes) {
  return entry("cuMemAllocHost", [&](Simulator& simulator) { allocate_pinned(simulator, address, bytes); });
}

// It does not wait for copies from and to the block: the manual does not promise that.
Result cuMemFreeHost(void* address) {
  return release_entry("cuMemFreeHost", [&](Simulator& simulator) {
    simulator.require_initialised();
    refuse_unsafe_call(simulator);
    require(simulator.pinned.free(address));
  });
}

// "Page-locks the memory range specified by p and bytesize". "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: the memory
// range
// [...] has already been registered."
Result cuMemHostRegister(void* address, std::size_t bytes, unsigned flags) {
  return entry("cuMemHostRegister", [&](Simulator& simulator) {
    simulator.context();
    require(address != nullptr && bytes > 0 && flags < 16);
    refuse_unsafe_call(simulator);
    require(simulator.pinned.take(address, bytes), kAlreadyRegistered);
  });
}

// "The base address must be the same one specified to cuMemHostRegister()."
Result cuMemHostUnregister(void* address) {
  return release_entry("cuMemHostUnregister", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(simulator.pinned.give_back(address), kNotRegistered);
  });
}

// With unified addresses, the device uses the host's address.
Result cuMemHostGetDevicePointer(DeviceAddress* device_address, void* address, unsigned flags) {
  return entry("cuMemHostGetDevicePointer", [&](Simulator& simulator) {
    simulator.context();
    require(device_address != nullptr && flags == 0 && simulator.pinned.find(address, 1) != 0);
    *device_address = reinterpret_cast<std::uintptr_t>(address);
  });
}

Result cuMemcpyHtoDAsync(DeviceAddress to, const void* from, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemcpyHtoDAsync", [&](Simulator& simulator) {
    simulator.context();
    submit_copy(simulator, simulator.stream(stream), device_place(simulator, to), host_place(simulator, from, bytes),
                bytes);
  });
}

Result cuMemcpyDtoHAsync(void* to, DeviceAddress from, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemcpyDtoHAsync", [&](Simulator& simulator) {
    simulator.context();
    submit_copy(simulator, simulator.stream(stream), host_place(simulator, to, bytes), device_place(simulator, from),
                bytes);
  });
}

Result cuMemcpyDtoDAsync(DeviceAddress to, DeviceAddress from, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemcpyDtoDAsync", [&](Simulator& simulator) {
    simulator.context();
    submit_copy(simulator, simulator.stream(stream), device_place(simulator, to), device_place(simulator, from), bytes);
  });
}

Result cuMemsetD8Async(DeviceAddress to, unsigned char value, std::size_t bytes, StreamHandle stream) {
  return entry("cuMemsetD8Async", [&](Simulator& simulator) {
    simulator.context();
    device_place(simulator, to);
    if (bytes > 0) submit(simulator, simulator.stream(stream), Fill{to, value, bytes});
  });
}

Result cuMemcpyHtoD(DeviceAddress to, const void* from, std::size_t bytes) {
  return entry("cuMemcpyHtoD", [&](Simulator& simulator) {
    copy_and_wait(simulator, device_place(simulator, to), host_place(simulator, from, bytes), bytes);
  });
}

Result cuMemcpyDtoH(void* to, DeviceAddress from, std::size_t bytes) {
  return entry("cuMemcpyDtoH", [&](Simulator& simulator) {
    copy_and_wait(simulator, host_place(simulator, to, bytes), device_place(simulator, from), bytes);
  });
}

Result cuMemcpyDtoD(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  return entry("cuMemcpyDtoD", [&](Simulator& simulator) {
    copy_and_wait(simulator, device_place(simulator, to), device_place(simulator, from), bytes);
  });
}

Result cuMemsetD8(DeviceAddress to, unsigned char value, std::size_t bytes) {
  return entry("cuMemsetD8", [&](Simulator& simulator) {
    device_place(simulator, to);
    if (bytes > 0) submit(simulator, *simulator.context().legacy_stream, Fill{to, value, bytes});
  });
}

}  // extern "C"

}  // namespace tessera::cuda::driver
