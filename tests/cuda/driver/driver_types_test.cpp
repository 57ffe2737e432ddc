// driver_types.h and driver_api.h against NVIDIA's header, where that is at hand: sizes, values, and the parameters of
// every entry point. Everything is checked by the compiler.
#ifdef TESSERA_HAS_CUDA_HEADER
#include <cuda.h>  // first: its macros give functions with several versions the names of the newest, in both
#endif

#include <gtest/gtest.h>

#include <type_traits>

#include "backends/cuda/driver/driver_api.h"

#ifdef TESSERA_HAS_CUDA_HEADER
namespace tessera::cuda::driver {
namespace {

// What a parameter is for the calling convention: integers and enumerations by size, pointers by what they point to
// where that is a number or a pointer; structures by their size.
template <class Ours, class Theirs>
constexpr bool same() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Ours>;
    using B = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_const_v<A> != std::is_const_v<B>) return false;
    // Opaque objects: both incomplete structures.
    if constexpr (std::is_class_v<A> && std::is_class_v<B>) return true;
    else return same<std::remove_const_t<A>, std::remove_const_t<B>>();
  } else if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return false;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class... Ours, class... Theirs>
struct SameFunction<Result (*)(Ours...), CUresult (*)(Theirs...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return (same<Ours, Theirs>() && ...);
    else return false;
  }
  static constexpr bool value = check();
};

#define TESSERA_CUDA_ENTRY(name, parameters) \
  static_assert(SameFunction<decltype(DriverApi::name), decltype(&::name)>::value, #name);
TESSERA_CUDA_ENTRIES(TESSERA_CUDA_ENTRY)
#undef TESSERA_CUDA_ENTRY

static_assert(sizeof(DeviceHandle) == sizeof(CUdevice) && sizeof(DeviceAddress) == sizeof(CUdeviceptr));
static_assert(sizeof(AllocationHandle) == sizeof(CUmemGenericAllocationHandle));
static_assert(sizeof(Uuid) == sizeof(CUuuid) && sizeof(MemoryLocation) == sizeof(CUmemLocation));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, requested_handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, win32_handle_meta_data) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(GraphUpdateInfo) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(offsetof(GraphUpdateInfo, error_node) == offsetof(CUgraphExecUpdateResultInfo, errorNode));
static_assert(offsetof(GraphUpdateInfo, error_from_node) == offsetof(CUgraphExecUpdateResultInfo, errorFromNode));

struct Value {
  long long ours, theirs;
};
constexpr Value kValues[] = {
    {kSuccess, CUDA_SUCCESS},
    {kInvalidValue, CUDA_ERROR_INVALID_VALUE},
    {kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY},
    {kNotInitialised, CUDA_ERROR_NOT_INITIALIZED},
    {kDeinitialised, CUDA_ERROR_DEINITIALIZED},
    {kNoDevice, CUDA_ERROR_NO_DEVICE},
    {kInvalidDevice, CUDA_ERROR_INVALID_DEVICE},
    {kInvalidContext, CUDA_ERROR_INVALID_CONTEXT},
    {kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU},
    {kInvalidPtx, CUDA_ERROR_INVALID_PTX},
    {kNotFound, CUDA_ERROR_NOT_FOUND},
    {kNotReady, CUDA_ERROR_NOT_READY},
    {kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS},
    {kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
    {kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT},
    {kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED},
    {kNotSupported, CUDA_ERROR_NOT_SUPPORTED},
    {kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED},
    {kStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE},
    {kStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED},
    {kStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED},
    {kStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION},
    {kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
    {kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT},
    {kStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
    {kGraphExecUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE},
    {kUnknown, CUDA_ERROR_UNKNOWN},
    {kMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {kWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {kMaxRegistersPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {kClockRateKilohertz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {kIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {kMemoryClockRateKilohertz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
    {kMemoryBusWidthBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {kL2CacheBytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {kAsyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {kMaxSharedMemoryPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {kMaxRegistersPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {kMaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {kVirtualMemoryManagementSupported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
    {kMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
    {kPinnedAllocation, CU_MEM_ALLOCATION_TYPE_PINNED},
    {kDeviceLocation, CU_MEM_LOCATION_TYPE_DEVICE},
    {kReadsAndWrites, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
    {kMinimumGranularity, CU_MEM_ALLOC_GRANULARITY_MINIMUM},
    {kStreamNonBlocking, CU_STREAM_NON_BLOCKING},
    {kEventDefault, CU_EVENT_DEFAULT},
    {kPortableHostMemory, CU_MEMHOSTALLOC_PORTABLE},
    {kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
    {kCaptureStatusNone, CU_STREAM_CAPTURE_STATUS_NONE},
    {kCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE},
    {kCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED},
};
constexpr bool all_equal() {
  for (const Value& value : kValues) {
    if (value.ours != value.theirs) return false;
  }
  return true;
}
static_assert(all_equal());

}  // namespace
}  // namespace tessera::cuda::driver
#endif

namespace tessera::cuda::driver {
namespace {

TEST(DriverTypes, AreThoseOfCudaHeader) {
#ifndef TESSERA_HAS_CUDA_HEADER
  GTEST_SKIP() << "NVIDIA's header was not found when this was compiled";
#endif
}

}  // namespace
}  // namespace tessera::cuda::driver
