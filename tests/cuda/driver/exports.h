// The functions of the driver API that this library exports, under their plain names. TESSERA_CUDA_ENTRIES declares
// those that the backend calls; further ones are here for programs that are not ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver/driver_api.h"

namespace tessera::cuda::driver {

extern "C" {
#define TESSERA_CUDA_ENTRY(name, parameters) __attribute__((visibility("default"))) Result name parameters;
TESSERA_CUDA_ENTRIES(TESSERA_CUDA_ENTRY)
#undef TESSERA_CUDA_ENTRY

#define TESSERA_CUDA_FURTHER_ENTRIES(ENTRY)                                                                   \
  ENTRY(cuGetProcAddress, (const char* name, void** function, int version, std::uint64_t flags, int* status)) \
  ENTRY(cuMemAlloc, (DeviceAddress * address, std::size_t bytes))                                             \
  ENTRY(cuMemFree, (DeviceAddress address))                                                                   \
  ENTRY(cuMemAllocHost, (void** address, std::size_t bytes))                                                  \
  ENTRY(cuMemHostRegister, (void* address, std::size_t bytes, unsigned flags))                                \
  ENTRY(cuMemHostUnregister, (void* address))                                                                 \
  ENTRY(cuMemHostGetDevicePointer, (DeviceAddress * device_address, void* address, unsigned flags))           \
  ENTRY(cuMemcpyHtoD, (DeviceAddress to, const void* from, std::size_t bytes))                                \
  ENTRY(cuMemcpyDtoH, (void* to, DeviceAddress from, std::size_t bytes))                                      \
  ENTRY(cuMemcpyDtoD, (DeviceAddress to, DeviceAddress from, std::size_t bytes))                              \
  ENTRY(cuMemsetD8, (DeviceAddress to, unsigned char value, std::size_t bytes))                               \
  ENTRY(cuCtxCreate, (ContextHandle * context, unsigned flags, DeviceHandle device))                          \
  ENTRY(cuCtxDestroy, (ContextHandle context))                                                                \
  ENTRY(cuCtxPushCurrent, (ContextHandle context))                                                            \
  ENTRY(cuCtxPopCurrent, (ContextHandle * context))                                                           \
  ENTRY(cuCtxGetDevice, (DeviceHandle * device))                                                              \
  ENTRY(cuCtxSynchronize, ())                                                                                 \
  ENTRY(cuStreamQuery, (StreamHandle stream))                                                                 \
  ENTRY(cuModuleLoadDataEx, (ModuleHandle * module, const void* image, unsigned count, int* options, void** values))

#define TESSERA_CUDA_ENTRY(name, parameters) __attribute__((visibility("default"))) Result name parameters;
TESSERA_CUDA_FURTHER_ENTRIES(TESSERA_CUDA_ENTRY)
#undef TESSERA_CUDA_ENTRY
}

}  // namespace tessera::cuda::driver
