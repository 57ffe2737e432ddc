#include "backends/simulated/simulated_device.h"

#include <gtest/gtest.h>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "backends/device_properties.h"
#include "backends/simulated/kernel_time.h"
#include "base/threads/clock.h"
#include "support/device_call.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "tessera/device.h"

namespace tessera::test::simulated_device_test {
namespace {

using backends::DeviceMemory;
using backends::Event;
using backends::Recording;
using backends::Stream;
using backends::simulated::SimulatedDevice;

// Faults and clocks belong to a device, so each test has one of its own.
const SimulatedDevice& new_device(const std::string& options = "") {
  static int number = 1000;
  return dynamic_cast<const SimulatedDevice&>(
      backends::find_device("simulated:h100-sxm,number=" + std::to_string(number++) + options));
}

OpCall product(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  return {
      "MatMul", {random_tensor(DType::f32, {rows, inner}, 1), random_tensor(DType::f32, {inner, columns}, 2)}, {}, 1};
}

OpCall gather(std::int64_t index) {
  return {"Gather", {Tensor::from<float>({3}, {1, 2, 3}), Tensor::from<std::int64_t>({1}, {index})}, {}, 1};
}

TEST(SimulatedDevice, ResultsHaveTheBitsOfTheKernelsItComputesBy) {
  const OpCall calls[] = {product(5, 37, 18),
                          {"Softmax", {random_tensor(DType::f32, {7, 33}, 3)}, {}, 1},
                          {"Identity", {random_tensor(DType::f32, {4, 5}, 4)}, {}, 1},
                          {"Add", {random_tensor(DType::f32, {4, 5}, 5), random_tensor(DType::f32, {5}, 6)}, {}, 1}};
  for (const char* computes : {"reference", "cpu"}) {
    const SimulatedDevice& device = new_device(std::string(",compute=") + computes);
    for (const OpCall& call : calls) {
      SCOPED_TRACE(call.op + " by " + computes);
      EXPECT_TRUE(identical(run_on_device(device, call), run_op_tensor(call, computes)));
    }
  }
}

TEST(SimulatedDevice, PackedWeightsLieInItsMemory) {
  const SimulatedDevice& device = new_device(",compute=cpu");
  const OpCall call = product(5, 300, 200);
  const std::int64_t before = device.memory().in_use_bytes();
  {
    const DeviceCall prepared(device, call, {false, true});
    const std::int64_t operands = (5 * 300 + 300 * 200 + 5 * 200) * 4;
    EXPECT_GE(device.memory().in_use_bytes() - before, operands + 300 * 200 * 4);
  }
  EXPECT_EQ(device.memory().in_use_bytes(), before);
  EXPECT_TRUE(identical(run_on_device(device, call, {false, true}), run_op_tensor(call, "cpu")));
}

TEST(SimulatedDevice, TakesTheTimeThatTheCostModelPredicts) {
  const SimulatedDevice& device = new_device();
  const DeviceCall call(device, product(64, 128, 256));
  const auto stream = device.make_stream();
  const auto begin = device.make_event(), copied = device.make_event(), end = device.make_event();
  stream->record(*begin);
  call.copy_inputs(*stream);
  stream->record(*copied);
  call.enqueue(*stream);
  stream->record(*end);
  end->wait();
  // Two copies over half of a link of 128 GB/s, after a launch of 5 us each.
  const double copy_ns = 10'000 + (64 * 128 + 128 * 256) * 4 / 64.0;
  EXPECT_NEAR(static_cast<double>(copied->time_ns() - begin->time_ns()), copy_ns, 1);
  // It reads and writes so much at 3350 GB/s; arithmetic takes less.
  const std::int64_t kernel_ns =
      backends::simulated::kernel_time_ns(call.view(), backends::simulated::parse_options(device.name()).profile);
  EXPECT_NEAR(static_cast<double>(kernel_ns), (64 * 128 + 128 * 256 + 64 * 256) * 4 / 3350.0, 1);
  EXPECT_EQ(end->time_ns() - copied->time_ns(), 5000 + kernel_ns);
}

TEST(SimulatedDevice, CopiesOfOneStreamOverlapKernelsOfAnother) {
  const SimulatedDevice& device = new_device();
  const DeviceCall computed_call(device, product(64, 64, 64)), copied_call(device, product(64, 64, 64));
  const auto computing = device.make_stream(), copying = device.make_stream();
  for (int i = 0; i < 10; ++i) computed_call.enqueue(*computing);
  copied_call.copy_inputs(*copying);  // not what the other stream reads meanwhile
  const auto computed = device.make_event(), copied = device.make_event();
  computing->record(*computed);
  copying->record(*copied);
  computed->wait();
  copied->wait();
  EXPECT_LT(copied->time_ns(), computed->time_ns());
  computing->synchronise();
  copying->synchronise();
}

TEST(SimulatedDevice, StreamsWaitForEventsOfOthers) {
  const SimulatedDevice& device = new_device();
  const OpCall call = product(64, 64, 64);
  const DeviceCall prepared(device, call);
  const auto first = device.make_stream(), second = device.make_stream();
  const auto copied = device.make_event();
  EXPECT_TRUE(copied->done());
  prepared.copy_inputs(*first);
  first->record(*copied);
  second->wait(*copied);
  prepared.enqueue(*second);
  const std::vector<Tensor> results = prepared.copy_outputs(*second);
  EXPECT_FALSE(copied->done());
  second->synchronise();
  EXPECT_TRUE(copied->done());
  EXPECT_TRUE(identical(results[0], run_op_tensor(call)));
}

TEST(SimulatedDevice, FailuresAreReportedBySynchronise) {
  const SimulatedDevice& device = new_device();
  const DeviceCall wrong(device, gather(7)), right(device, gather(1));
  const auto stream = device.make_stream();
  wrong.copy_inputs(*stream);
  right.copy_inputs(*stream);
  wrong.enqueue(*stream);
  right.enqueue(*stream);
  const std::string place = "(in node 'under_test' (Gather))";
  expect_error_containing(ErrorKind::failed, place, [&] { stream->synchronise(); });
  stream->synchronise();
  right.enqueue(*stream);
  const std::vector<Tensor> results = right.copy_outputs(*stream);
  stream->synchronise();
  EXPECT_EQ(results[0].data<float>()[0], 2);
}

TEST(SimulatedDevice, FailuresReachWhoWaitsForThem) {
  const SimulatedDevice& device = new_device();
  const DeviceCall wrong(device, gather(7));
  const auto first = device.make_stream(), second = device.make_stream();
  const auto failed = device.make_event();
  wrong.copy_inputs(*first);
  wrong.enqueue(*first);
  first->record(*failed);
  second->wait(*failed);
  expect_error_containing(ErrorKind::failed, "Gather", [&] { second->synchronise(); });
  expect_error_containing(ErrorKind::failed, "Gather", [&] { failed->wait(); });
  first->synchronise();  // reported already
}

TEST(SimulatedDevice, MemoryEndsAtItsCapacity) {
  const SimulatedDevice& device = new_device(",memory=1MiB");
  DeviceMemory& memory = device.memory();
  EXPECT_EQ(memory.capacity_bytes(), 1 << 20);
  void* const block = memory.allocate(600 << 10);
  EXPECT_TRUE(memory.contains(block));
  EXPECT_EQ(memory.in_use_bytes(), 600 << 10);
  expect_error(
      ErrorKind::over_budget,
      "device '" + std::string(device.name()) +
          "' has no place for 500.0 KiB: 600.0 KiB of 1.0 MiB are in use, and the largest free part is 424.0 KiB",
      [&] { memory.allocate(500 << 10); });
  memory.free(block);
  EXPECT_EQ(memory.in_use_bytes(), 0);
}

TEST(SimulatedDevice, MemoryFreedOnAStreamServesWhatComesLater) {
  const SimulatedDevice& device = new_device(",memory=1MiB");
  DeviceMemory& memory = device.memory();
  const auto first = device.make_stream(), second = device.make_stream();
  void* const block = memory.allocate(600 << 10, first.get());
  first->fill(block, std::byte{3}, 600 << 10);
  memory.free(block, first.get());
  EXPECT_EQ(memory.allocate(600 << 10, first.get()), block);
  memory.free(block, first.get());
  // Another stream gets it behind the work of the first.
  EXPECT_EQ(memory.allocate(600 << 10, second.get()), block);
  std::byte read{};
  second->copy_to_host(&read, block, 1);
  second->synchronise();
  EXPECT_EQ(read, std::byte{3});
  memory.free(block, second.get());
  EXPECT_EQ(memory.allocate(600 << 10), block);
  memory.free(block);
}

TEST(SimulatedDeviceDeathTest, HostThatReadsItsMemoryCrashes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const SimulatedDevice& device = new_device();
  const auto* address = static_cast<volatile const char*>(device.memory().allocate(64));
  EXPECT_DEATH(static_cast<void>(*address), "");
}

TEST(SimulatedDevice, FailsWhereItsNameAsksForIt) {
  const SimulatedDevice& memory = new_device(",fault=allocation:2");
  void* const block = memory.memory().allocate(64);
  expect_error(ErrorKind::over_budget,
               "allocation 2 on device '" + std::string(memory.name()) + "' fails, as its name asks for",
               [&] { memory.memory().allocate(64); });
  memory.memory().free(block);
  memory.memory().free(memory.memory().allocate(64));

  const SimulatedDevice& launch = new_device(",fault=launch:3");
  const DeviceCall call(launch, gather(1));
  const auto stream = launch.make_stream();
  call.copy_inputs(*stream);
  for (int i = 0; i < 4; ++i) call.enqueue(*stream);
  expect_error(ErrorKind::failed, "launch 3 on device '" + std::string(launch.name()) + "' fails, as its name asks for",
               [&] { stream->synchronise(); });
  call.enqueue(*stream);
  stream->synchronise();
  EXPECT_EQ(launch.activity().launches, 5);
}

TEST(SimulatedDevice, CopiesAreSlowWhereItsNameAsksForIt) {
  EXPECT_DOUBLE_EQ(new_device().copy_seconds(64'000'000), 0.001005);
  EXPECT_DOUBLE_EQ(new_device(",fault=slow_copies:10").copy_seconds(64'000'000), 0.010005);
}

TEST(SimulatedDevice, ReplaysCostOneLaunch) {
  const SimulatedDevice& device = new_device();
  const OpCall operation = product(32, 32, 32);
  const DeviceCall call(device, operation);
  const auto stream = device.make_stream(), other = device.make_stream();
  const auto begin = device.make_event(), end = device.make_event();
  stream->begin_capture();
  call.copy_inputs(*stream);
  for (int i = 0; i < 3; ++i) call.enqueue(*stream);
  const std::unique_ptr<Recording> recording = stream->end_capture();
  stream->synchronise();
  EXPECT_EQ(device.activity().launches, 0);
  EXPECT_EQ(device.timeline().clock().now_ns(), 0);
  // On another stream than it was recorded on.
  other->record(*begin);
  recording->replay(*other);
  other->record(*end);
  const std::vector<Tensor> results = call.copy_outputs(*other);
  other->synchronise();
  EXPECT_TRUE(identical(results[0], run_op_tensor(operation)));
  EXPECT_EQ(device.activity().launches, 1);
  const std::int64_t kernel_ns =
      backends::simulated::kernel_time_ns(call.view(), backends::simulated::parse_options(device.name()).profile);
  EXPECT_EQ(end->time_ns() - begin->time_ns(), 5000 + 2 * 64 + 3 * kernel_ns);
}

TEST(SimulatedDevice, WithoutComputingTimesAreTheSameAndResultsZeros) {
  std::int64_t times[2];
  for (const bool computes : {false, true}) {
    const SimulatedDevice& device = new_device(computes ? "" : ",compute=none");
    const DeviceCall call(device, product(64, 64, 64));
    const auto stream = device.make_stream();
    call.copy_inputs(*stream);
    call.enqueue(*stream);
    const std::vector<Tensor> results = call.copy_outputs(*stream);
    stream->synchronise();
    times[computes ? 1 : 0] = device.timeline().clock().now_ns();
    if (!computes) {
      for (const float element : results[0].values<float>()) ASSERT_EQ(element, 0);
    }
  }
  EXPECT_EQ(times[0], times[1]);
}

TEST(SimulatedDevice, RefusesToComputeAtOnce) {
  const SimulatedDevice& device = new_device();
  expect_error_containing(ErrorKind::unsupported, "' computes on streams alone, and this call has none",
                          [&] { DeviceCall(device, gather(1)).run(nullptr); });
}

TEST(SimulatedDevice, NamesOfEqualOptionsAreOneDevice) {
  const backends::Device& device = backends::find_device("simulated:h100,compute=reference");
  EXPECT_EQ(&device, &backends::find_device("simulated:h100-sxm"));
  EXPECT_NE(&device, &backends::find_device("simulated:h100-sxm,compute=cpu"));
  EXPECT_FALSE(device.is_host());
  EXPECT_EQ(device.host_fallback().name(), "reference");
  EXPECT_EQ(backends::find_device("simulated:h100-sxm,compute=cpu").host_fallback().name(), "cpu");
  EXPECT_EQ(device_names(), (std::vector<std::string>{"cpu", "cuda:N", "reference", "null", "simulated:PROFILE"}));
  expect_error(ErrorKind::invalid_argument,
               "there is no device 'tpu'; devices: cpu, cuda:N, reference, null, simulated:PROFILE",
               [] { backends::find_device("tpu"); });
  expect_error_containing(ErrorKind::invalid_argument, "did you mean 'h100-sxm'?",
                          [] { backends::find_device("simulated:h100-sxn"); });
}

// Two host threads that share the device, in the time of one clock.
std::vector<std::int64_t> times_of_two_threads(std::uint64_t seed) {
  const SimulatedDevice& device = new_device(",seed=" + std::to_string(seed));
  base::VirtualClock clock(seed);
  device.timeline().use_clock(clock);
  const DeviceCall calls[] = {{device, product(64, 64, 64)}, {device, product(48, 64, 80)}};
  std::vector<std::vector<std::int64_t>> times(2);
  std::vector<std::function<void()>> bodies;
  for (std::size_t t = 0; t < 2; ++t) {
    bodies.emplace_back([&, t] {
      const auto stream = device.make_stream();
      for (int round = 0; round < 10; ++round) {
        calls[t].copy_inputs(*stream);
        for (int i = 0; i < 3; ++i) calls[t].enqueue(*stream);
        stream->synchronise();
        times[t].push_back(clock.now_ns());
      }
    });
  }
  clock.run(bodies);
  times[0].insert(times[0].end(), times[1].begin(), times[1].end());
  return times[0];
}

TEST(SimulatedDevice, EqualSeedsGiveEqualTimes) {
  const std::vector<std::int64_t> expected = times_of_two_threads(5);
  for (int repetition = 0; repetition < 3; ++repetition) EXPECT_EQ(times_of_two_threads(5), expected);
}

TEST(SimulatedDevice, PropertiesAreThoseOfTheProfile) {
  const backends::DeviceProperties& h100 = new_device(",memory=2GiB").properties();
  EXPECT_EQ(h100.product, "NVIDIA H100 SXM5 80 GB");
  EXPECT_EQ(h100.instruction_set, "sm_90");
  EXPECT_EQ(h100.compute_capability, (backends::ComputeCapability{9, 0}));
  EXPECT_EQ(h100.memory_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(h100.multiprocessors, 132);
  EXPECT_EQ(h100.warp_size, 32);
  EXPECT_EQ(h100.shared_memory_per_block_bytes, 227 * 1024);
  EXPECT_EQ(h100.l2_bytes, 51200 * 1024);
  EXPECT_EQ(backends::names_of(h100.native_products), "f64, f32, tf32, f16, bf16, f8, int8");
  EXPECT_EQ(h100.profile->name, "h100-sxm");
  const backends::DeviceProperties& t4 = backends::find_device("simulated:t4").properties();
  EXPECT_LT(t4.compute_capability, h100.compute_capability);
  EXPECT_EQ(backends::names_of(t4.native_products), "f32, f16, int8, int4");
}

}  // namespace
}  // namespace tessera::test::simulated_device_test
