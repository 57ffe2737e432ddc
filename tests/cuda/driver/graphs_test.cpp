// Rules of captures and graphs, each with the sentence of the CUDA Driver API manual (13.0) that states it.
#include <thread>

#include "driver/fixture.h"

namespace tessera::cuda::driver {
namespace {

constexpr Result kIllegalState = static_cast<Result>(401);

class SimulatedGraphs : public SimulatedDriver {
 protected:
  void SetUp() override {
    SimulatedDriver::SetUp();
    first_ = stream();
    second_ = stream();
    a_ = memory();
    b_ = memory();
  }
  void begin_capture() { ASSERT_EQ(api().cuStreamBeginCapture(first_, kCaptureThreadLocal), kSuccess); }
  Result end_capture() { return api().cuStreamEndCapture(first_, &graph_); }
  int status(StreamHandle queue) {
    int status = -1;
    EXPECT_EQ(api().cuStreamIsCapturing(queue, &status), kSuccess);
    return status;
  }
  // a becomes 1, and with a branch on the second stream b becomes a's bytes.
  void capture_fork(unsigned char value, bool forks = true) {
    const EventHandle fork = event(), join = event();
    begin_capture();
    ASSERT_EQ(api().cuMemsetD8Async(a_, value, 4, first_), kSuccess);
    ASSERT_EQ(api().cuEventRecord(fork, first_), kSuccess);
    if (forks) {
      ASSERT_EQ(api().cuStreamWaitEvent(second_, fork, 0), kSuccess);
    }
    ASSERT_EQ(api().cuMemcpyDtoDAsync(b_, a_, 4, forks ? second_ : first_), kSuccess);
    ASSERT_EQ(api().cuMemsetD8Async(a_ + 64, value, 4, first_), kSuccess);
    ASSERT_EQ(api().cuEventRecord(join, forks ? second_ : first_), kSuccess);
    ASSERT_EQ(api().cuStreamWaitEvent(first_, join, 0), kSuccess);
    ASSERT_EQ(end_capture(), kSuccess);
    ASSERT_EQ(api().cuEventDestroy(fork), kSuccess);
    ASSERT_EQ(api().cuEventDestroy(join), kSuccess);
  }
  GraphExecHandle instantiate() {
    GraphExecHandle recording = nullptr;
    EXPECT_EQ(api().cuGraphInstantiateWithFlags(&recording, graph_, 0), kSuccess);
    return recording;
  }

  StreamHandle first_ = nullptr, second_ = nullptr;
  DeviceAddress a_ = 0, b_ = 0;
  GraphHandle graph_ = nullptr;
};

// cuStreamBeginCapture: "When a stream is in capture mode, all operations pushed into the stream will not be executed,
// but will instead be captured into a graph". Launches run it in any order that the captured events allow.
TEST_F(SimulatedGraphs, CapturedWorkRunsWhenTheGraphIsLaunched) {
  capture_fork(1);
  EXPECT_EQ(control().counters().pending, 0u);
  EXPECT_EQ(value_at(b_, first_), -1);
  const GraphExecHandle recording = instantiate();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    control().set_seed(seed);
    ASSERT_EQ(api().cuMemsetD8Async(a_, 9, 4, first_), kSuccess);
    ASSERT_EQ(api().cuGraphLaunch(recording, first_), kSuccess);
    EXPECT_EQ(value_at(b_, first_), 0x01010101) << "seed " << seed;
  }
  ASSERT_EQ(api().cuGraphExecDestroy(recording), kSuccess);
  ASSERT_EQ(api().cuGraphDestroy(graph_), kSuccess);
  EXPECT_EQ(control().counters().graphs, 0u);
  EXPECT_EQ(control().counters().recordings, 0u);
}

// cuGraphLaunch: "Each launch is ordered behind both any previous work in hStream and any previous launches of
// hGraphExec." cuGraphExecDestroy while a launch waits: the launch goes on.
TEST_F(SimulatedGraphs, LaunchesOfOneGraphFollowEachOther) {
  capture_fork(1);
  const GraphExecHandle recording = instantiate();
  ASSERT_EQ(api().cuGraphLaunch(recording, first_), kSuccess);
  ASSERT_EQ(api().cuGraphLaunch(recording, second_), kSuccess);
  ASSERT_EQ(api().cuGraphExecDestroy(recording), kSuccess);
  ASSERT_EQ(api().cuStreamSynchronize(second_), kSuccess);
  EXPECT_EQ(control().counters().executed, 6u);
}

// CUDA_ERROR_STREAM_CAPTURE_UNJOINED: "the capture sequence contains a fork that was not joined to the primary stream".
TEST_F(SimulatedGraphs, BranchesMustBeJoined) {
  const EventHandle fork = event();
  begin_capture();
  ASSERT_EQ(api().cuEventRecord(fork, first_), kSuccess);
  ASSERT_EQ(api().cuStreamWaitEvent(second_, fork, 0), kSuccess);
  EXPECT_EQ(status(second_), kCaptureStatusActive);
  ASSERT_EQ(api().cuMemsetD8Async(a_, 1, 4, second_), kSuccess);
  EXPECT_EQ(end_capture(), kStreamCaptureUnjoined);
  EXPECT_EQ(graph_, nullptr);
  EXPECT_EQ(status(first_), kCaptureStatusNone);
  EXPECT_EQ(status(second_), kCaptureStatusNone);
}

// "Capture must be ended on the same stream in which it was initiated, and it may only be initiated if the stream is
// not already in capture mode." "Capture may not be initiated if stream is CU_STREAM_LEGACY."
TEST_F(SimulatedGraphs, CapturesBeginAndEndOnOneStream) {
  EXPECT_EQ(api().cuStreamBeginCapture(nullptr, kCaptureThreadLocal), kStreamCaptureUnsupported);
  EXPECT_EQ(end_capture(), kIllegalState);
  const EventHandle fork = event();
  begin_capture();
  EXPECT_EQ(api().cuStreamBeginCapture(first_, kCaptureThreadLocal), kIllegalState);
  ASSERT_EQ(api().cuEventRecord(fork, first_), kSuccess);
  ASSERT_EQ(api().cuStreamWaitEvent(second_, fork, 0), kSuccess);
  EXPECT_EQ(api().cuStreamEndCapture(second_, &graph_), kStreamCaptureUnmatched);
  EXPECT_EQ(end_capture(), kSuccess);
}

// "If mode is not CU_STREAM_CAPTURE_MODE_RELAXED, cuStreamEndCapture must be called on this stream from the same
// thread."
TEST_F(SimulatedGraphs, CapturesEndOnTheirThread) {
  begin_capture();
  std::thread([&] { EXPECT_EQ(end_capture(), kStreamCaptureWrongThread); }).join();
  EXPECT_EQ(end_capture(), kStreamCaptureInvalidated);
  EXPECT_EQ(status(first_), kCaptureStatusNone);
}

// "It is invalid to synchronize or query the execution status of a stream which is being captured or a captured event".
// "CU_STREAM_CAPTURE_STATUS_INVALIDATED: The stream was capturing but an error has invalidated the capture sequence.
// The capture sequence must be terminated with cuStreamEndCapture on the stream where it was initiated in order to
// continue using hStream."
TEST_F(SimulatedGraphs, WaitingOnTheHostInvalidatesACapture) {
  const EventHandle captured = event();
  begin_capture();
  EXPECT_EQ(api().cuStreamSynchronize(first_), kStreamCaptureUnsupported);
  EXPECT_EQ(status(first_), kCaptureStatusInvalidated);
  EXPECT_EQ(api().cuMemsetD8Async(a_, 1, 4, first_), kStreamCaptureInvalidated);
  EXPECT_EQ(end_capture(), kStreamCaptureInvalidated);
  begin_capture();
  ASSERT_EQ(api().cuEventRecord(captured, first_), kSuccess);
  EXPECT_EQ(api().cuEventQuery(captured), kCapturedEvent);
  EXPECT_EQ(end_capture(), kStreamCaptureInvalidated);
  EXPECT_EQ(api().cuMemsetD8Async(a_, 1, 4, first_), kSuccess);
  EXPECT_EQ(api().cuStreamSynchronize(first_), kSuccess);
}

// cuThreadExchangeStreamCaptureMode: "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: If the local thread has an ongoing capture
// sequence not initiated with CU_STREAM_CAPTURE_MODE_RELAXED, it is prohibited from potentially unsafe API calls.
// Concurrent capture sequences in other threads are ignored."
TEST_F(SimulatedGraphs, UnsafeCallsInvalidateTheCapturesOfTheirThread) {
  void *mine = nullptr, *of_another_thread = nullptr;
  begin_capture();
  std::thread([&] {
    ASSERT_EQ(api().cuCtxSetCurrent(context()), kSuccess);
    EXPECT_EQ(api().cuMemHostAlloc(&of_another_thread, 16, 0), kSuccess);
  }).join();
  EXPECT_EQ(status(first_), kCaptureStatusActive);
  EXPECT_EQ(api().cuMemHostAlloc(&mine, 16, 0), kStreamCaptureUnsupported);
  EXPECT_EQ(end_capture(), kStreamCaptureInvalidated);
}

// CUDA_ERROR_STREAM_CAPTURE_ISOLATION: "a dependency would have been created which crosses the capture sequence
// boundary". CUDA_ERROR_STREAM_CAPTURE_MERGE: "a merge of two independent capture sequences".
TEST_F(SimulatedGraphs, CapturesAreApartFromOthers) {
  const EventHandle outside = event(), inside = event();
  ASSERT_EQ(api().cuEventRecord(outside, second_), kSuccess);
  begin_capture();
  EXPECT_EQ(api().cuStreamWaitEvent(first_, outside, 0), kStreamCaptureIsolation);
  EXPECT_EQ(end_capture(), kStreamCaptureInvalidated);

  begin_capture();
  ASSERT_EQ(api().cuStreamBeginCapture(second_, kCaptureThreadLocal), kSuccess);
  ASSERT_EQ(api().cuEventRecord(inside, first_), kSuccess);
  EXPECT_EQ(api().cuStreamWaitEvent(second_, inside, 0), kStreamCaptureMerge);
  EXPECT_EQ(end_capture(), kStreamCaptureInvalidated);
  EXPECT_EQ(api().cuStreamEndCapture(second_, &graph_), kStreamCaptureInvalidated);
}

// "When a blocking stream is capturing, the legacy stream is in an unusable state until the blocking stream capture is
// terminated."
TEST_F(SimulatedGraphs, TheLegacyStreamIsUnusableWhileABlockingOneCaptures) {
  const StreamHandle blocking = stream(0);
  int state = 0;
  ASSERT_EQ(api().cuStreamBeginCapture(blocking, kCaptureThreadLocal), kSuccess);
  EXPECT_EQ(api().cuStreamIsCapturing(nullptr, &state), kStreamCaptureImplicit);
  EXPECT_EQ(status(blocking), kCaptureStatusActive);  // "The blocking stream capture is not invalidated."
  EXPECT_EQ(api().cuMemsetD8Async(a_, 1, 4, nullptr), kStreamCaptureImplicit);
  EXPECT_EQ(api().cuStreamEndCapture(blocking, &graph_), kStreamCaptureInvalidated);
}

// cuGraphExecUpdate: "Updates the node parameters in the instantiated graph specified by hGraphExec with the node
// parameters in a topologically identical graph specified by hGraph." Launches that wait keep the parameters of their
// time.
TEST_F(SimulatedGraphs, ParametersAreUpdatedInPlace) {
  capture_fork(1);
  const GraphExecHandle recording = instantiate();
  ASSERT_EQ(api().cuGraphLaunch(recording, first_), kSuccess);
  capture_fork(2);
  GraphUpdateInfo info{};
  ASSERT_EQ(api().cuGraphExecUpdate(recording, graph_, &info), kSuccess);
  EXPECT_EQ(info.result, 0);
  EXPECT_EQ(value_at(b_, first_), 0x01010101);
  ASSERT_EQ(api().cuGraphLaunch(recording, first_), kSuccess);
  EXPECT_EQ(value_at(b_, first_), 0x02020202);
}

// "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED if the graph topology changed": 2. "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
// if the graph update was not performed".
TEST_F(SimulatedGraphs, OtherTopologiesAreNoUpdate) {
  capture_fork(1);
  const GraphExecHandle recording = instantiate();
  capture_fork(2, false);
  GraphUpdateInfo info{};
  EXPECT_EQ(api().cuGraphExecUpdate(recording, graph_, &info), kGraphExecUpdateFailure);
  EXPECT_EQ(info.result, 2);
  EXPECT_NE(info.error_node, nullptr);
  begin_capture();
  ASSERT_EQ(end_capture(), kSuccess);
  EXPECT_EQ(api().cuGraphExecUpdate(recording, graph_, &info), kGraphExecUpdateFailure);
  EXPECT_EQ(info.error_node, nullptr);
  ASSERT_EQ(api().cuGraphLaunch(recording, first_), kSuccess);
  EXPECT_EQ(value_at(b_, first_), 0x01010101);
}

// A captured copy reads its source when the graph runs, also from pageable memory.
TEST_F(SimulatedGraphs, CapturedCopiesReadTheirSourceWhenTheyRun) {
  int source = 1;
  begin_capture();
  ASSERT_EQ(api().cuMemcpyHtoDAsync(a_, &source, 4, first_), kSuccess);
  ASSERT_EQ(end_capture(), kSuccess);
  const GraphExecHandle recording = instantiate();
  for (source = 5; source < 8; ++source) {
    ASSERT_EQ(api().cuGraphLaunch(recording, first_), kSuccess);
    EXPECT_EQ(value_at(a_, first_), source);
  }
}

}  // namespace
}  // namespace tessera::cuda::driver
