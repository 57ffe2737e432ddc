// Types and constants of the CUDA driver API, as far as the backend uses them. They are declared here because a build
// needs no CUDA toolkit; the names without "CU" and the values are those of the CUDA Driver API reference,
// version 13.0, with whose header the tests of the simulated driver compare them where it is at hand.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::cuda::driver {

// CUresult. Others than these are possible; cuGetErrorName knows their names.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialised = 3,
  kDeinitialised = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kGraphExecUpdateFailure = 910,
  kUnknown = 999,
};

using DeviceHandle = int;                // CUdevice
using DeviceAddress = std::uint64_t;     // CUdeviceptr
using AllocationHandle = std::uint64_t;  // CUmemGenericAllocationHandle
struct ContextObject;
struct StreamObject;
struct EventObject;
struct ModuleObject;
struct FunctionObject;
struct GraphObject;
struct GraphExecObject;
struct GraphNodeObject;
using ContextHandle = ContextObject*;
using StreamHandle = StreamObject*;
using EventHandle = EventObject*;
using ModuleHandle = ModuleObject*;
using FunctionHandle = FunctionObject*;
using GraphHandle = GraphObject*;
using GraphExecHandle = GraphExecObject*;
using GraphNodeHandle = GraphNodeObject*;

// CUdevice_attribute
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kWarpSize = 10,
  kMaxRegistersPerBlock = 12,
  kClockRateKilohertz = 13,
  kMultiprocessorCount = 16,
  kIntegrated = 18,
  kMemoryClockRateKilohertz = 36,
  kMemoryBusWidthBits = 37,
  kL2CacheBytes = 38,
  kAsyncEngineCount = 40,
  kUnifiedAddressing = 41,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerMultiprocessor = 81,
  kMaxRegistersPerMultiprocessor = 82,
  kMaxSharedMemoryPerBlockOptin = 97,
  kVirtualMemoryManagementSupported = 102,
};

// CUfunction_attribute
enum FunctionAttribute : int { kMaxDynamicSharedBytes = 8 };

struct Uuid {  // CUuuid
  unsigned char bytes[16];
};

struct MemoryLocation {  // CUmemLocation
  int type;              // 1: a device
  int id;
};
struct AllocationProperties {  // CUmemAllocationProp
  int type;                    // 1: pinned
  int requested_handle_types;  // 0: none
  MemoryLocation location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
struct AccessDescription {  // CUmemAccessDesc
  MemoryLocation location;
  int flags;  // 3: reads and writes
};
inline constexpr int kPinnedAllocation = 1, kDeviceLocation = 1, kReadsAndWrites = 3;
inline constexpr int kMinimumGranularity = 0;

inline constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0, kPortableHostMemory = 1;
inline constexpr int kCaptureThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr int kCaptureStatusNone = 0, kCaptureStatusActive = 1, kCaptureStatusInvalidated = 2;

struct GraphUpdateInfo {  // CUgraphExecUpdateResultInfo
  int result;
  GraphNodeHandle error_node;
  GraphNodeHandle error_from_node;
};

// The version that is asked for of entry points that have several (cuGetProcAddress): CUDA 12.0.
inline constexpr int kApiVersion = 12000;

}  // namespace tessera::cuda::driver
