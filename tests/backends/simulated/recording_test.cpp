#include "backends/simulated/recording.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "support/device_call.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::recording_test {
namespace {

using backends::DeviceActivity;
using backends::Recording;
using backends::Stream;

// Counts belong to a device, so each test has one of its own.
const backends::Device& new_device(const std::string& options = "") {
  static int number = 1500;
  return backends::find_device("simulated:h100-sxm,number=" + std::to_string(number++) + options);
}

OpCall product(int seed, std::int64_t size = 32) {
  return {"MatMul",
          {random_tensor(DType::f32, {size, size}, seed), random_tensor(DType::f32, {size, size}, seed + 1)},
          {},
          1};
}

std::unique_ptr<Recording> record(Stream& stream, const DeviceCall& call, std::unique_ptr<Recording> previous = {}) {
  stream.begin_capture();
  call.copy_inputs(stream);
  call.enqueue(stream);
  return stream.end_capture(std::move(previous));
}

Tensor replay(const backends::Device& device, Recording& recording, const DeviceCall& call) {
  const auto stream = device.make_stream();
  recording.replay(*stream);
  std::vector<Tensor> results = call.copy_outputs(*stream);
  stream->synchronise();
  return results[0];
}

TEST(SimulatedRecording, IsUpdatedWhenOnlyArgumentsChange) {
  const backends::Device& device = new_device();
  const OpCall first = product(1), second = product(5);
  const DeviceCall first_call(device, first), second_call(device, second);
  const auto stream = device.make_stream();
  std::unique_ptr<Recording> recording = record(*stream, first_call);
  const Recording* const made = recording.get();
  EXPECT_TRUE(identical(replay(device, *recording, first_call), run_op_tensor(first)));
  recording = record(*stream, second_call, std::move(recording));
  EXPECT_EQ(recording.get(), made);
  EXPECT_TRUE(identical(replay(device, *recording, second_call), run_op_tensor(second)));
  const DeviceActivity activity = device.activity();
  EXPECT_EQ(activity.instantiations, 1);
  EXPECT_EQ(activity.updates, 1);
  EXPECT_EQ(activity.replays, 2);
  EXPECT_EQ(activity.launches, 2);
  EXPECT_EQ(activity.copies_to_device, 4);
  EXPECT_EQ(activity.bytes_to_device, 4 * 32 * 32 * 4);
  EXPECT_EQ(activity.bytes_to_host, 2 * 32 * 32 * 4);
}

TEST(SimulatedRecording, IsMadeAnewWhenOperationsChange) {
  const backends::Device& device = new_device();
  const OpCall sum{"Add", {random_tensor(DType::f32, {8}, 1), random_tensor(DType::f32, {8}, 2)}, {}, 1};
  const DeviceCall call(device, product(1)), other(device, sum);
  const auto stream = device.make_stream();
  std::unique_ptr<Recording> recording = record(*stream, call);
  recording = record(*stream, other, std::move(recording));
  EXPECT_TRUE(identical(replay(device, *recording, other), run_op_tensor(sum)));
  stream->begin_capture();
  other.copy_inputs(*stream);
  other.enqueue(*stream);
  other.enqueue(*stream);
  recording = stream->end_capture(std::move(recording));
  EXPECT_EQ(device.activity().instantiations, 3);
  EXPECT_EQ(device.activity().updates, 0);
}

// Two products on two streams beside each other, and their sum.
struct Fork {
  explicit Fork(const backends::Device& on)
      : device(on),
        origin(on.make_stream()),
        side(on.make_stream()),
        forked(on.make_event()),
        joined(on.make_event()) {}
  const backends::Device& device;
  std::unique_ptr<Stream> origin, side;
  std::unique_ptr<backends::Event> forked, joined;

  void enqueue(const DeviceCall& on_origin, const DeviceCall& on_side, bool joins = true) const {
    origin->record(*forked);
    side->wait(*forked);
    on_side.copy_inputs(*side);
    on_side.enqueue(*side);
    on_origin.copy_inputs(*origin);
    on_origin.enqueue(*origin);
    side->record(*joined);
    if (joins) origin->wait(*joined);
  }
};

TEST(SimulatedRecording, HoldsTheWorkOfStreamsThatJoined) {
  const backends::Device& device = new_device();
  const OpCall operations[] = {product(1), product(5)};
  const DeviceCall first(device, operations[0]), second(device, operations[1]);
  const Fork fork(device);
  fork.origin->begin_capture();
  EXPECT_FALSE(fork.side->is_capturing());
  fork.enqueue(first, second);
  EXPECT_TRUE(fork.side->is_capturing());
  std::unique_ptr<Recording> recording = fork.origin->end_capture();
  EXPECT_FALSE(fork.side->is_capturing());
  EXPECT_EQ(device.activity().launches, 0);
  for (int round = 0; round < 3; ++round) {
    const auto stream = device.make_stream();
    recording->replay(*stream);
    const Tensor results[] = {first.copy_outputs(*stream)[0], second.copy_outputs(*stream)[0]};
    stream->synchronise();
    EXPECT_TRUE(identical(results[0], run_op_tensor(operations[0])));
    EXPECT_TRUE(identical(results[1], run_op_tensor(operations[1])));
  }
  EXPECT_EQ(device.activity().launches, 3);
  fork.origin->begin_capture();
  fork.enqueue(second, first);
  recording = fork.origin->end_capture(std::move(recording));
  EXPECT_EQ(device.activity().updates, 1);
  // The streams work as before.
  fork.enqueue(first, second);
  fork.origin->synchronise();
}

TEST(SimulatedRecording, ReplaysOverlapWhatWasRecordedOnTwoStreams) {
  // A copy of one stream takes about as long as the kernel of the other.
  std::int64_t times[2];
  for (const bool forks : {false, true}) {
    const backends::Device& device = new_device(",compute=none");
    const DeviceCall copied(device, product(1, 512)), computed(device, product(5, 1024));
    const Fork fork(device);
    Stream& side = forks ? *fork.side : *fork.origin;
    fork.origin->begin_capture();
    if (forks) fork.origin->record(*fork.forked);
    if (forks) side.wait(*fork.forked);
    copied.copy_inputs(side);
    computed.enqueue(*fork.origin);
    if (forks) side.record(*fork.joined);
    if (forks) fork.origin->wait(*fork.joined);
    const std::unique_ptr<Recording> recording = fork.origin->end_capture();
    const auto begin = device.make_event(), end = device.make_event();
    fork.origin->record(*begin);
    recording->replay(*fork.origin);
    fork.origin->record(*end);
    fork.origin->synchronise();
    times[forks ? 1 : 0] = end->time_ns() - begin->time_ns();
  }
  EXPECT_LT(times[1], times[0]);
}

TEST(SimulatedRecording, FailuresOfAStreamThatJoinedAreReportedOnce) {
  const backends::Device& device = new_device();
  const OpCall wrong{"Gather", {Tensor::from<float>({3}, {1, 2, 3}), Tensor::from<std::int64_t>({1}, {7})}, {}, 1};
  const DeviceCall first(device, product(1)), second(device, wrong);
  const Fork fork(device);
  fork.origin->begin_capture();
  fork.enqueue(first, second);
  const std::unique_ptr<Recording> recording = fork.origin->end_capture();
  for (int round = 0; round < 2; ++round) {
    recording->replay(*fork.origin);
    expect_error_containing(ErrorKind::failed, "Gather", [&] { fork.origin->synchronise(); });
  }
  const auto other = device.make_stream();
  first.enqueue(*other);
  other->synchronise();
}

TEST(SimulatedRecording, ReplaysOnTwoStreamsComeOneAfterTheOther) {
  const backends::Device& device = new_device();
  const DeviceCall call(device, product(1));
  const auto first = device.make_stream(), second = device.make_stream();
  const std::unique_ptr<Recording> recording = record(*first, call);
  const auto ends_first = device.make_event(), ends_second = device.make_event();
  recording->replay(*first);
  first->record(*ends_first);
  recording->replay(*second);
  second->record(*ends_second);
  first->synchronise();
  second->synchronise();
  EXPECT_GE(ends_second->time_ns() - ends_first->time_ns(), 5000);
}

TEST(SimulatedRecording, RefusesStreamsThatWereNotJoinedBack) {
  const backends::Device& device = new_device();
  const DeviceCall first(device, product(1)), second(device, product(5));
  const Fork fork(device);
  fork.origin->begin_capture();
  fork.enqueue(first, second, false);
  expect_error_containing(ErrorKind::failed, "was not joined back", [&] { fork.origin->end_capture(); });
  EXPECT_FALSE(fork.side->is_capturing());
  expect_error_containing(ErrorKind::failed, "is not permitted on an event that was last recorded by a capture",
                          [&] { fork.joined->wait(); });
  expect_error_containing(ErrorKind::failed, "it must be recorded anew", [&] { fork.origin->wait(*fork.joined); });
}

// Expects that the call fails and that the capture is lost with it, and that the stream then records again.
template <typename Call>
void expect_invalid(Stream& stream, const std::string& message, Call call) {
  SCOPED_TRACE(message);
  stream.begin_capture();
  expect_error_containing(ErrorKind::failed, message, call);
  expect_error_containing(ErrorKind::failed, "the recording was invalidated before", [&] { stream.end_capture(); });
  EXPECT_FALSE(stream.is_capturing());
}

TEST(SimulatedRecording, ForbiddenCallsInvalidateIt) {
  const backends::Device& device = new_device();
  const auto stream = device.make_stream(), other = device.make_stream();
  const auto event = device.make_event(), recorded = device.make_event();
  void* const block = device.memory().allocate(64);
  other->record(*recorded);
  float pageable = 0;
  expect_invalid(*stream, "an allocation of device memory is not permitted", [&] { device.memory().allocate(64); });
  expect_invalid(*stream, "an allocation of pinned host memory is not", [&] { device.memory().allocate_host(64); });
  expect_invalid(*stream, "a copy from host memory that is not pinned cannot be recorded",
                 [&] { stream->copy_to_device(block, &pageable, 4); });
  expect_invalid(*stream, "a copy to host memory that is not pinned cannot be recorded",
                 [&] { stream->copy_to_host(&pageable, block, 4); });
  expect_invalid(*stream, "a stream cannot be waited for while it records", [&] { stream->synchronise(); });
  expect_invalid(*stream, "a wait for a stream is not permitted", [&] { other->synchronise(); });
  expect_invalid(*stream, "a query is not permitted while", [&] { static_cast<void>(recorded->done()); });
  expect_invalid(*stream, "a wait is not permitted while", [&] { recorded->wait(); });
  expect_invalid(*stream, "a wait is not permitted on an event", [&] {
    stream->record(*event);
    event->wait();
  });
  expect_invalid(*stream, "cannot wait for an event that was not recorded with it", [&] { stream->wait(*recorded); });
  expect_invalid(*stream, "a stream records one thing at a time", [&] { stream->begin_capture(); });
  stream->begin_capture();
  device.memory().free(block);
  expect_error_containing(ErrorKind::failed, "a free of device memory is not permitted",
                          [&] { stream->end_capture(); });
  expect_error_containing(ErrorKind::failed, "that records nothing", [&] { stream->end_capture(); });
}

TEST(SimulatedRecording, StreamsMustNotGoWhileTheyRecord) {
  const backends::Device& device = new_device();
  Fork fork(device);
  fork.origin->begin_capture();
  fork.origin->record(*fork.forked);
  fork.side->wait(*fork.forked);
  fork.side.reset();
  expect_error_containing(ErrorKind::failed, "a stream was destroyed while it recorded work",
                          [&] { fork.origin->end_capture(); });
  // One that goes with its capture, on another thread than that which began it, leaves nothing behind.
  fork.origin->begin_capture();
  std::thread([&] { fork.origin.reset(); }).join();
  fork.forked.reset();
  device.memory().free(device.memory().allocate(64));
}

TEST(SimulatedRecording, CapturesDoNotMerge) {
  const backends::Device& device = new_device();
  const auto first = device.make_stream(), second = device.make_stream();
  const auto event = device.make_event();
  first->begin_capture();
  second->begin_capture();
  first->record(*event);
  expect_error_containing(ErrorKind::failed, "an event of another recording", [&] { second->wait(*event); });
  for (Stream* stream : {first.get(), second.get()})
    expect_error_containing(ErrorKind::failed, "invalidated before", [&] { stream->end_capture(); });
}

TEST(SimulatedRecording, EndsOnTheStreamOnWhichItBegan) {
  const backends::Device& device = new_device();
  const Fork fork(device);
  fork.origin->begin_capture();
  fork.origin->record(*fork.forked);
  fork.side->wait(*fork.forked);
  expect_error_containing(ErrorKind::failed, "on the stream on which it began", [&] { fork.side->end_capture(); });
  fork.origin->abandon_capture();
  EXPECT_FALSE(fork.side->is_capturing());
  EXPECT_EQ(device.activity().instantiations, 0);
}

TEST(SimulatedRecording, RefusesEventsOfOtherDevices) {
  const backends::Device &device = new_device(), &other = new_device();
  const auto stream = device.make_stream();
  const auto event = other.make_event();
  for (const auto& call :
       {std::function<void()>([&] { stream->record(*event); }), std::function<void()>([&] { stream->wait(*event); })})
    expect_error_containing(ErrorKind::invalid_argument, "an event of another device is given to a stream of device",
                            call);
}

// Random numbers of a recording follow the seed that lies in the device's memory when it is replayed.
TEST(SimulatedRecording, ReadsTheSeedWhenItExecutes) {
  const backends::Device& device = new_device();
  const OpCall call{"RandomUniform", {}, {{"shape", std::vector<std::int64_t>{100}}}, 1};
  const DeviceCall prepared(device, call);
  backends::DeviceMemory& memory = device.memory();
  auto* const given = static_cast<std::uint64_t*>(memory.allocate_host(8));
  auto* const cell = static_cast<std::uint64_t*>(memory.allocate(8));
  const auto stream = device.make_stream();
  stream->begin_capture();
  prepared.run(stream.get(), {.seed = 99, .seed_cell = cell});
  const std::unique_ptr<Recording> recording = stream->end_capture();
  const auto numbers = [&](std::uint64_t seed) {
    *given = seed;
    stream->copy_to_device(cell, given, 8);
    recording->replay(*stream);
    std::vector<Tensor> results = prepared.copy_outputs(*stream);
    stream->synchronise();
    return results[0];
  };
  const auto enqueued = [&](std::uint64_t seed) {
    prepared.run(stream.get(), {.seed = seed});
    std::vector<Tensor> results = prepared.copy_outputs(*stream);
    stream->synchronise();
    return results[0];
  };
  EXPECT_TRUE(identical(numbers(7), enqueued(7)));
  EXPECT_TRUE(identical(numbers(8), enqueued(8)));
  EXPECT_FALSE(identical(enqueued(7), enqueued(8)));
  EXPECT_EQ(device.activity().instantiations, 1);
  memory.free(cell);
  memory.free_host(given);
}

}  // namespace
}  // namespace tessera::test::recording_test
