// Rules of streams, events and copies, each with the sentence of the CUDA Driver API manual (13.0) that states it.
#include "driver/fixture.h"

namespace tessera::cuda::driver {
namespace {

class SimulatedStreams : public SimulatedDriver {
 protected:
  // One stream writes 7 into memory, another adds nothing but copies it on. Returns what the second one's copy has.
  int copied_by_another_stream(bool with_event) {
    const DeviceAddress a = memory(), b = memory();
    int* const source = pinned<int>(1);
    *source = 7;
    const StreamHandle first = stream(), second = stream();
    EXPECT_EQ(api().cuMemsetD8Async(a, 0, 4, first), kSuccess);
    EXPECT_EQ(api().cuStreamSynchronize(first), kSuccess);
    EXPECT_EQ(api().cuMemcpyHtoDAsync(a, source, 4, first), kSuccess);
    const EventHandle written = event();
    EXPECT_EQ(api().cuEventRecord(written, first), kSuccess);
    if (with_event) {
      EXPECT_EQ(api().cuStreamWaitEvent(second, written, 0), kSuccess);
    }
    EXPECT_EQ(api().cuMemcpyDtoDAsync(b, a, 4, second), kSuccess);
    return value_at(b, second);
  }
};

// cuStreamWaitEvent: "Makes all future work submitted to hStream wait for all work captured in hEvent."
TEST_F(SimulatedStreams, AWaitOrdersTwoStreams) {
  for (int seed = 0; seed < 20; ++seed) {
    begin("memory=64MiB,seed=" + std::to_string(seed));
    EXPECT_EQ(copied_by_another_stream(true), 7) << "seed " << seed;
  }
}

// The planted mistake: the wait is missing.
TEST_F(SimulatedStreams, AMissingWaitGivesAWrongResult) {
  int wrong = 0;
  for (int seed = 0; seed < 20; ++seed) {
    begin("memory=64MiB,seed=" + std::to_string(seed));
    wrong += copied_by_another_stream(false) != 7 ? 1 : 0;
  }
  EXPECT_GT(wrong, 5);
  EXPECT_LT(wrong, 20);  // the lucky order is legal, too
}

// The planted mistake: the host writes to pinned memory before the copy from it has ended.
TEST_F(SimulatedStreams, PinnedMemoryIsReadWhenTheCopyRuns) {
  const DeviceAddress to = memory();
  int* const source = pinned<int>(1);
  const StreamHandle queue = stream();
  *source = 1;
  ASSERT_EQ(api().cuMemcpyHtoDAsync(to, source, 4, queue), kSuccess);
  *source = 2;
  EXPECT_EQ(value_at(to, queue), 2);
}

// "For transfers from pageable host memory to device memory, host memory is copied to a staging buffer immediately (no
// device synchronization is performed). The function will return once the pageable buffer has been copied to the
// staging memory."
TEST_F(SimulatedStreams, PageableMemoryIsReadAtOnce) {
  const DeviceAddress to = memory();
  int source = 1;
  const StreamHandle queue = stream();
  ASSERT_EQ(api().cuMemcpyHtoDAsync(to, &source, 4, queue), kSuccess);
  EXPECT_EQ(control().counters().pending, 1u);
  source = 2;
  EXPECT_EQ(value_at(to, queue), 1);
}

// "For transfers from device memory to pageable host memory, the function will return only after the copy has
// completed." To pinned memory it is asynchronous.
TEST_F(SimulatedStreams, CopiesToPinnedMemoryArriveLate) {
  const DeviceAddress from = memory();
  int* const to = pinned<int>(1);
  *to = 5;
  const StreamHandle queue = stream();
  ASSERT_EQ(api().cuMemsetD8Async(from, 0, 4, queue), kSuccess);
  ASSERT_EQ(api().cuMemcpyDtoHAsync(to, from, 4, queue), kSuccess);
  EXPECT_EQ(*to, 5);
  ASSERT_EQ(api().cuStreamSynchronize(queue), kSuccess);
  EXPECT_EQ(*to, 0);
}

// cuEventQuery: "Returns CUDA_SUCCESS if all captured work has been completed, or CUDA_ERROR_NOT_READY if any captured
// work is incomplete. If cuEventRecord() has not been called on hEvent, CUDA_SUCCESS".
TEST_F(SimulatedStreams, QueriesMakeProgress) {
  const DeviceAddress to = memory();
  const StreamHandle queue = stream();
  const EventHandle done = event();
  EXPECT_EQ(api().cuEventQuery(done), kSuccess);
  ASSERT_EQ(api().cuMemsetD8Async(to, 0, 4, queue), kSuccess);
  ASSERT_EQ(api().cuEventRecord(done, queue), kSuccess);
  EXPECT_EQ(api().cuEventQuery(done), kNotReady);
  EXPECT_EQ(control().counters().executed, 0u);
  EXPECT_EQ(api().cuEventQuery(done), kSuccess);
  EXPECT_EQ(control().counters().executed, 1u);
}

// cuEventRecord: "Captures in hEvent the contents of hStream at the time of this call." "will overwrite the previously
// captured state"; waits that came before keep theirs.
TEST_F(SimulatedStreams, AWaitKeepsTheRecordThatItSaw) {
  const DeviceAddress a = memory(), b = memory();
  const StreamHandle first = stream(), second = stream();
  const EventHandle shared = event();
  ASSERT_EQ(api().cuMemsetD8Async(a, 1, 4, first), kSuccess);
  ASSERT_EQ(api().cuEventRecord(shared, first), kSuccess);
  ASSERT_EQ(api().cuStreamWaitEvent(second, shared, 0), kSuccess);
  ASSERT_EQ(api().cuMemsetD8Async(b, 2, 4, first), kSuccess);
  ASSERT_EQ(api().cuEventRecord(shared, first), kSuccess);
  ASSERT_EQ(api().cuStreamSynchronize(second), kSuccess);
  EXPECT_EQ(control().counters().executed, 1u);  // the fill of b is not needed
  ASSERT_EQ(api().cuEventSynchronize(shared), kSuccess);
  EXPECT_EQ(control().counters().executed, 2u);
}

// cuEventElapsedTime: "If cuEventRecord() has not been called on either event then CUDA_ERROR_INVALID_HANDLE is
// returned. If cuEventRecord() has been called on both events but one or both of them has not yet been completed [...],
// CUDA_ERROR_NOT_READY is returned. If either event was created with the CU_EVENT_DISABLE_TIMING flag, then this
// function will return CUDA_ERROR_INVALID_HANDLE."
TEST_F(SimulatedStreams, ElapsedTimeGrowsWithTheWork) {
  const DeviceAddress to = memory(16 * kStep);
  const StreamHandle queue = stream();
  const EventHandle a = event(), b = event(), c = event(), untimed = event(2);
  float few = 0, many = 0;
  EXPECT_EQ(api().cuEventElapsedTime(&few, a, b), static_cast<Result>(400));
  ASSERT_EQ(api().cuEventRecord(a, queue), kSuccess);
  ASSERT_EQ(api().cuMemsetD8Async(to, 0, kStep, queue), kSuccess);
  ASSERT_EQ(api().cuEventRecord(b, queue), kSuccess);
  ASSERT_EQ(api().cuMemsetD8Async(to, 0, 16 * kStep, queue), kSuccess);
  ASSERT_EQ(api().cuEventRecord(c, queue), kSuccess);
  ASSERT_EQ(api().cuEventRecord(untimed, queue), kSuccess);
  EXPECT_EQ(api().cuEventElapsedTime(&few, a, b), kNotReady);
  ASSERT_EQ(api().cuEventSynchronize(untimed), kSuccess);
  ASSERT_EQ(api().cuEventElapsedTime(&few, a, b), kSuccess);
  ASSERT_EQ(api().cuEventElapsedTime(&many, b, c), kSuccess);
  EXPECT_GT(few, 0);
  EXPECT_GT(many, 4 * few);
  EXPECT_EQ(api().cuEventElapsedTime(&few, a, untimed), static_cast<Result>(400));
}

// The legacy default stream: "synchronizes with other streams" except those of CU_STREAM_NON_BLOCKING, which run
// "concurrently with work in stream 0 (the NULL stream), and [...] perform no implicit synchronization with stream 0".
TEST_F(SimulatedStreams, TheLegacyStreamWaitsForBlockingStreams) {
  const DeviceAddress to = memory();
  for (const bool blocking : {true, false}) {
    const StreamHandle queue = stream(blocking ? 0 : kStreamNonBlocking);
    ASSERT_EQ(api().cuMemsetD8Async(to, 0, 4, queue), kSuccess);
    ASSERT_EQ(api().cuMemsetD8Async(to, blocking ? 1 : 2, 4, nullptr), kSuccess);
    const auto before = control().counters().executed;
    ASSERT_EQ(api().cuStreamSynchronize(nullptr), kSuccess);
    EXPECT_EQ(control().counters().executed - before, blocking ? 2u : 1u);
    ASSERT_EQ(api().cuStreamSynchronize(queue), kSuccess);
  }
}

// cuStreamDestroy: "the function will return immediately and the resources associated with hStream will be released
// automatically once the device has completed all work in hStream." cuEventDestroy: "does not block on completion".
TEST_F(SimulatedStreams, DestroyedStreamsFinishTheirWork) {
  const DeviceAddress to = memory();
  const StreamHandle queue = stream(), other = stream();
  const EventHandle done = event();
  ASSERT_EQ(api().cuMemsetD8Async(to, 3, 4, queue), kSuccess);
  ASSERT_EQ(api().cuEventRecord(done, queue), kSuccess);
  ASSERT_EQ(api().cuStreamWaitEvent(other, done, 0), kSuccess);
  ASSERT_EQ(api().cuStreamDestroy(queue), kSuccess);
  ASSERT_EQ(api().cuEventDestroy(done), kSuccess);
  EXPECT_EQ(control().counters().streams, 1u);
  EXPECT_EQ(value_at(to, other), 0x03030303);
  EXPECT_EQ(api().cuStreamSynchronize(queue), static_cast<Result>(400));
}

}  // namespace
}  // namespace tessera::cuda::driver
