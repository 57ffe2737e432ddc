// Planned faults, counters, settings and devices of the simulated driver.
#include "driver/fixture.h"

namespace tessera::cuda::driver {
namespace {

class SimulatedFaults : public SimulatedDriver {};

TEST_F(SimulatedFaults, TheCallThatWasChosenFails) {
  begin("memory=64MiB,fail=cuStreamCreate:2");
  StreamHandle queue = nullptr;
  EXPECT_EQ(api().cuStreamCreate(&queue, 0), kSuccess);
  EXPECT_EQ(api().cuStreamCreate(&queue, 0), kOutOfMemory);
  EXPECT_EQ(api().cuStreamCreate(&queue, 0), kSuccess);
  EXPECT_EQ(control().counters().streams, 2u);
  EXPECT_EQ(control().calls("cuStreamCreate"), 3u);
  EXPECT_EQ(control().fail("cuNothing", 1, 2), 1);
}

// "Note that this function may also return error codes from previous, asynchronous launches."
TEST_F(SimulatedFaults, ReleasesThatFailReleaseAllTheSame) {
  const StreamHandle queue = stream();
  ASSERT_EQ(control().fail("cuStreamDestroy", 1, kUnknown), 0);
  EXPECT_EQ(api().cuStreamDestroy(queue), kUnknown);
  EXPECT_EQ(control().counters().streams, 0u);
}

// CUDA_ERROR_LAUNCH_FAILED: "any further CUDA work will return the same error".
TEST_F(SimulatedFaults, StickyFaultsSpoilTheContext) {
  const StreamHandle queue = stream();
  ASSERT_EQ(control().fail("cuStreamSynchronize", 1, kLaunchFailed), 0);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kLaunchFailed);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kLaunchFailed);
  EventHandle event = nullptr;
  EXPECT_EQ(api().cuEventCreate(&event, 0), kLaunchFailed);
  control().recover();
  EXPECT_EQ(api().cuEventCreate(&event, 0), kSuccess);
}

TEST_F(SimulatedFaults, CountersShowWhatWasNotReleased) {
  const DeviceAddress address = memory();
  int* const block = pinned<int>(4);
  const StreamHandle queue = stream();
  const EventHandle mark = event();
  const SimulatedCudaCounters counters = control().counters();
  EXPECT_EQ(counters.streams, 1u);
  EXPECT_EQ(counters.events, 1u);
  EXPECT_EQ(counters.pinned, 1u);
  EXPECT_EQ(counters.mappings, 1u);
  EXPECT_EQ(counters.allocations, 1u);
  EXPECT_EQ(counters.reservations, 1u);
  EXPECT_EQ(counters.contexts, 1u);
  ASSERT_EQ(api().cuMemUnmap(address, kStep), kSuccess);
  ASSERT_EQ(api().cuMemAddressFree(address, kStep), kSuccess);
  ASSERT_EQ(api().cuMemFreeHost(block), kSuccess);
  ASSERT_EQ(api().cuStreamDestroy(queue), kSuccess);
  ASSERT_EQ(api().cuEventDestroy(mark), kSuccess);
  ASSERT_EQ(api().cuDevicePrimaryCtxRelease(0), kSuccess);
  const SimulatedCudaCounters after = control().counters();
  EXPECT_EQ(after.streams + after.events + after.pinned + after.mappings + after.allocations + after.reservations +
                after.contexts,
            0u);
}

// A small program that stops at its first failure and releases what it has. Returns whether everything went well.
bool run_program(const DriverApi& api) {
  const AccessDescription access{{kDeviceLocation, 0}, kReadsAndWrites};
  AllocationProperties device{};
  device.type = kPinnedAllocation;
  device.location = {kDeviceLocation, 0};
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  DeviceAddress address = 0;
  AllocationHandle handle = 0;
  void* block = nullptr;
  StreamHandle queue = nullptr;
  EventHandle done = nullptr;
  GraphHandle graph = nullptr;
  GraphExecHandle recording = nullptr;
  bool is_mapped = false, good = true;
  const auto call = [&](Result result) { return good = good && result == kSuccess; };

  if (call(api.cuMemAddressReserve(&address, kBytes, 0, 0, 0)) && call(api.cuMemCreate(&handle, kBytes, &device, 0))) {
    is_mapped = call(api.cuMemMap(address, kBytes, 0, handle, 0));
    call(api.cuMemRelease(handle));
  }
  good = good && call(api.cuMemSetAccess(address, kBytes, &access, 1)) && call(api.cuMemHostAlloc(&block, 64, 0)) &&
         call(api.cuStreamCreate(&queue, kStreamNonBlocking)) && call(api.cuEventCreate(&done, kEventDefault)) &&
         call(api.cuStreamBeginCapture(queue, kCaptureThreadLocal));
  if (good) {
    call(api.cuMemcpyHtoDAsync(address, block, 64, queue));
    call(api.cuStreamEndCapture(queue, &graph));
  }
  good = good && call(api.cuGraphInstantiateWithFlags(&recording, graph, 0)) &&
         call(api.cuGraphLaunch(recording, queue)) && call(api.cuEventRecord(done, queue)) &&
         call(api.cuEventSynchronize(done)) && call(api.cuMemcpyDtoHAsync(block, address, 64, queue)) &&
         call(api.cuStreamSynchronize(queue));
  if (recording != nullptr) call(api.cuGraphExecDestroy(recording));
  if (graph != nullptr) call(api.cuGraphDestroy(graph));
  if (done != nullptr) call(api.cuEventDestroy(done));
  if (queue != nullptr) call(api.cuStreamDestroy(queue));
  if (block != nullptr) call(api.cuMemFreeHost(block));
  if (is_mapped) call(api.cuMemUnmap(address, kBytes));
  if (address != 0) call(api.cuMemAddressFree(address, kBytes));
  return good;
}

// Every call of the program fails once, with an error that passes and with one that spoils the context: it says so,
// nothing is left, and the next run is good.
TEST_F(SimulatedFaults, EveryCallMayFail) {
  ASSERT_TRUE(run_program(api()));
  int faults = 0;
#define TESSERA_CUDA_ENTRY(name, parameters) #name,
  for (const char* const entry : {TESSERA_CUDA_ENTRIES(TESSERA_CUDA_ENTRY)}) {
#undef TESSERA_CUDA_ENTRY
    begin("memory=64MiB");
    ASSERT_TRUE(run_program(api()));
    const std::uint64_t calls = control().calls(entry);
    for (const int result : {2, 719}) {
      for (std::uint64_t n = 1; n <= calls; ++n) {
        begin("memory=64MiB");
        const std::uint64_t before = control().calls(entry);
        if (n <= before) continue;  // calls of begin() itself
        ASSERT_EQ(control().fail(entry, n - before, result), 0);
        EXPECT_FALSE(run_program(api())) << entry << " call " << n;
        const SimulatedCudaCounters left = control().counters();
        EXPECT_EQ(left.streams + left.events + left.pinned + left.mappings + left.allocations + left.reservations +
                      left.graphs + left.recordings,
                  0u)
            << entry << " call " << n << " with " << result;
        control().recover();
        EXPECT_TRUE(run_program(api())) << entry << " call " << n;
        ++faults;
      }
    }
  }
  EXPECT_GT(faults, 30);
}

TEST_F(SimulatedFaults, SettingsAreChecked) {
  for (const char* const wrong : {"device=1", "devices=many", "capability=70", "memory=4TB", "fail=cuInit", "seed"})
    EXPECT_THAT(control().configure(wrong), testing::HasSubstr(wrong)) << wrong;
}

TEST_F(SimulatedFaults, DevicesAreThoseOfTheProfile) {
  begin("devices=2,capability=90,memory=1GiB");
  int count = 0, major = 0, minor = 0, shared = 0;
  ASSERT_EQ(api().cuDeviceGetCount(&count), kSuccess);
  EXPECT_EQ(count, 2);
  DeviceHandle device = 0;
  ASSERT_EQ(api().cuDeviceGet(&device, 1), kSuccess);
  EXPECT_EQ(api().cuDeviceGet(&device, 2), kInvalidDevice);
  ASSERT_EQ(api().cuDeviceGetAttribute(&major, kComputeCapabilityMajor, 1), kSuccess);
  ASSERT_EQ(api().cuDeviceGetAttribute(&minor, kComputeCapabilityMinor, 1), kSuccess);
  ASSERT_EQ(api().cuDeviceGetAttribute(&shared, kMaxSharedMemoryPerBlockOptin, 1), kSuccess);
  EXPECT_EQ(10 * major + minor, 90);
  EXPECT_EQ(shared, 227 * 1024);
  Uuid first{}, second{};
  ASSERT_EQ(api().cuDeviceGetUuid(&first, 0), kSuccess);
  ASSERT_EQ(api().cuDeviceGetUuid(&second, 1), kSuccess);
  EXPECT_NE(std::string(first.bytes, first.bytes + 16), std::string(second.bytes, second.bytes + 16));
  char name[64] = {};
  ASSERT_EQ(api().cuDeviceGetName(name, 64, 1), kSuccess);
  EXPECT_STREQ(name, "Simulated H100");
  std::size_t bytes = 0;
  ASSERT_EQ(api().cuDeviceTotalMem(&bytes, 1), kSuccess);
  EXPECT_EQ(bytes, std::size_t{1} << 30);
}

// cuInit: "CUDA_ERROR_NO_DEVICE: no CUDA-capable devices were detected". CUDA_ERROR_NOT_INITIALIZED: "the CUDA driver
// has not been initialized with cuInit()". CUDA_ERROR_INVALID_CONTEXT: "there is no context bound to the current
// thread".
TEST_F(SimulatedFaults, CallsNeedADeviceAndAContext) {
  StreamHandle queue = nullptr;
  int count = 0;
  ASSERT_EQ(control().configure("devices=0"), nullptr);
  EXPECT_EQ(api().cuDeviceGetCount(&count), kNotInitialised);
  EXPECT_EQ(api().cuInit(0), kNoDevice);
  ASSERT_EQ(control().configure(""), nullptr);
  ASSERT_EQ(api().cuInit(0), kSuccess);
  EXPECT_EQ(api().cuStreamCreate(&queue, 0), kInvalidContext);
}

// cuGetErrorName: "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned and *pStr will be set
// to the NULL address."
TEST_F(SimulatedFaults, ResultsHaveNames) {
  const char* name = nullptr;
  ASSERT_EQ(api().cuGetErrorName(kIllegalAddress, &name), kSuccess);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  ASSERT_EQ(api().cuGetErrorString(kOutOfMemory, &name), kSuccess);
  EXPECT_STREQ(name, "out of memory");
  EXPECT_EQ(api().cuGetErrorName(static_cast<Result>(12345), &name), kInvalidValue);
  EXPECT_EQ(name, nullptr);
}

}  // namespace
}  // namespace tessera::cuda::driver
