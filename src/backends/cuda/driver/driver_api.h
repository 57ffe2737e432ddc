// The CUDA driver, loaded when the program first asks for it: libcuda.so.1, of whatever version is installed.
#pragma once

#include <string>

#include "backends/cuda/driver/driver_types.h"

namespace tessera::cuda::driver {

// The entry points of the driver API that the backend calls, as TESSERA_CUDA_ENTRY(name, parameters). All return a
// Result. The names are those of cuGetProcAddress: of functions with several versions (cuMemAlloc_v2, …) it returns the
// one of kApiVersion.
#define TESSERA_CUDA_ENTRIES(TESSERA_CUDA_ENTRY)                                                                       \
  TESSERA_CUDA_ENTRY(cuInit, (unsigned flags))                                                                         \
  TESSERA_CUDA_ENTRY(cuDriverGetVersion, (int* version))                                                               \
  TESSERA_CUDA_ENTRY(cuGetErrorName, (Result result, const char** name))                                               \
  TESSERA_CUDA_ENTRY(cuGetErrorString, (Result result, const char** text))                                             \
  TESSERA_CUDA_ENTRY(cuDeviceGetCount, (int* count))                                                                   \
  TESSERA_CUDA_ENTRY(cuDeviceGet, (DeviceHandle * device, int ordinal))                                                \
  TESSERA_CUDA_ENTRY(cuDeviceGetName, (char* name, int bytes, DeviceHandle device))                                    \
  TESSERA_CUDA_ENTRY(cuDeviceGetUuid, (Uuid * uuid, DeviceHandle device))                                              \
  TESSERA_CUDA_ENTRY(cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, DeviceHandle device))               \
  TESSERA_CUDA_ENTRY(cuDeviceTotalMem, (std::size_t* bytes, DeviceHandle device))                                      \
  TESSERA_CUDA_ENTRY(cuDevicePrimaryCtxRetain, (ContextHandle * context, DeviceHandle device))                         \
  TESSERA_CUDA_ENTRY(cuDevicePrimaryCtxRelease, (DeviceHandle device))                                                 \
  TESSERA_CUDA_ENTRY(cuCtxSetCurrent, (ContextHandle context))                                                         \
  TESSERA_CUDA_ENTRY(cuCtxGetCurrent, (ContextHandle * context))                                                       \
  TESSERA_CUDA_ENTRY(cuMemGetInfo, (std::size_t* free, std::size_t* total))                                            \
  TESSERA_CUDA_ENTRY(cuMemGetAllocationGranularity,                                                                    \
                     (std::size_t* bytes, const AllocationProperties* properties, int option))                         \
  TESSERA_CUDA_ENTRY(cuMemAddressReserve, (DeviceAddress * address, std::size_t bytes, std::size_t alignment,          \
                                           DeviceAddress wanted, unsigned long long flags))                            \
  TESSERA_CUDA_ENTRY(cuMemAddressFree, (DeviceAddress address, std::size_t bytes))                                     \
  TESSERA_CUDA_ENTRY(cuMemCreate, (AllocationHandle * handle, std::size_t bytes,                                       \
                                   const AllocationProperties* properties, unsigned long long flags))                  \
  TESSERA_CUDA_ENTRY(cuMemRelease, (AllocationHandle handle))                                                          \
  TESSERA_CUDA_ENTRY(cuMemMap, (DeviceAddress address, std::size_t bytes, std::size_t offset, AllocationHandle handle, \
                                unsigned long long flags))                                                             \
  TESSERA_CUDA_ENTRY(cuMemUnmap, (DeviceAddress address, std::size_t bytes))                                           \
  TESSERA_CUDA_ENTRY(cuMemSetAccess, (DeviceAddress address, std::size_t bytes, const AccessDescription* descriptions, \
                                      std::size_t count))                                                              \
  TESSERA_CUDA_ENTRY(cuMemHostAlloc, (void** address, std::size_t bytes, unsigned flags))                              \
  TESSERA_CUDA_ENTRY(cuMemFreeHost, (void* address))                                                                   \
  TESSERA_CUDA_ENTRY(cuMemcpyHtoDAsync, (DeviceAddress to, const void* from, std::size_t bytes, StreamHandle stream))  \
  TESSERA_CUDA_ENTRY(cuMemcpyDtoHAsync, (void* to, DeviceAddress from, std::size_t bytes, StreamHandle stream))        \
  TESSERA_CUDA_ENTRY(cuMemcpyDtoDAsync,                                                                                \
                     (DeviceAddress to, DeviceAddress from, std::size_t bytes, StreamHandle stream))                   \
  TESSERA_CUDA_ENTRY(cuMemsetD8Async, (DeviceAddress to, unsigned char value, std::size_t bytes, StreamHandle stream)) \
  TESSERA_CUDA_ENTRY(cuStreamCreate, (StreamHandle * stream, unsigned flags))                                          \
  TESSERA_CUDA_ENTRY(cuStreamDestroy, (StreamHandle stream))                                                           \
  TESSERA_CUDA_ENTRY(cuStreamSynchronize, (StreamHandle stream))                                                       \
  TESSERA_CUDA_ENTRY(cuStreamWaitEvent, (StreamHandle stream, EventHandle event, unsigned flags))                      \
  TESSERA_CUDA_ENTRY(cuStreamBeginCapture, (StreamHandle stream, int mode))                                            \
  TESSERA_CUDA_ENTRY(cuStreamEndCapture, (StreamHandle stream, GraphHandle * graph))                                   \
  TESSERA_CUDA_ENTRY(cuStreamIsCapturing, (StreamHandle stream, int* status))                                          \
  TESSERA_CUDA_ENTRY(cuEventCreate, (EventHandle * event, unsigned flags))                                             \
  TESSERA_CUDA_ENTRY(cuEventDestroy, (EventHandle event))                                                              \
  TESSERA_CUDA_ENTRY(cuEventRecord, (EventHandle event, StreamHandle stream))                                          \
  TESSERA_CUDA_ENTRY(cuEventQuery, (EventHandle event))                                                                \
  TESSERA_CUDA_ENTRY(cuEventSynchronize, (EventHandle event))                                                          \
  TESSERA_CUDA_ENTRY(cuEventElapsedTime, (float* milliseconds, EventHandle from, EventHandle to))                      \
  TESSERA_CUDA_ENTRY(cuModuleLoadData, (ModuleHandle * module, const void* image))                                     \
  TESSERA_CUDA_ENTRY(cuModuleUnload, (ModuleHandle module))                                                            \
  TESSERA_CUDA_ENTRY(cuModuleGetFunction, (FunctionHandle * function, ModuleHandle module, const char* name))          \
  TESSERA_CUDA_ENTRY(cuFuncSetAttribute, (FunctionHandle function, FunctionAttribute attribute, int value))            \
  TESSERA_CUDA_ENTRY(cuLaunchKernel, (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,     \
                                      StreamHandle stream, void** parameters, void** extra))                           \
  TESSERA_CUDA_ENTRY(cuGraphInstantiateWithFlags,                                                                      \
                     (GraphExecHandle * recording, GraphHandle graph, unsigned long long flags))                       \
  TESSERA_CUDA_ENTRY(cuGraphExecUpdate, (GraphExecHandle recording, GraphHandle graph, GraphUpdateInfo * info))        \
  TESSERA_CUDA_ENTRY(cuGraphLaunch, (GraphExecHandle recording, StreamHandle stream))                                  \
  TESSERA_CUDA_ENTRY(cuGraphExecDestroy, (GraphExecHandle recording))                                                  \
  TESSERA_CUDA_ENTRY(cuGraphDestroy, (GraphHandle graph))

struct DriverApi {
#define TESSERA_CUDA_ENTRY(name, parameters) Result(*name) parameters = nullptr;
  TESSERA_CUDA_ENTRIES(TESSERA_CUDA_ENTRY)
#undef TESSERA_CUDA_ENTRY
};

// The driver of this machine, which is loaded and initialised by the first call; null if it cannot be used, in which
// case `why`, unless null, is set to one line that says so: "the NVIDIA driver is not installed (libcuda.so.1: …)".
// Thread-safe.
const DriverApi* find_driver(std::string* why = nullptr);

// Throws Error if the result is not kSuccess; `call` names the function. Out of memory is Error(over_budget), what a
// device lacks Error(unsupported), everything else Error(failed). Results after which the context is lost ("the process
// must be terminated and relaunched") say so.
void check(const DriverApi& api, Result result, const char* call);

}  // namespace tessera::cuda::driver
