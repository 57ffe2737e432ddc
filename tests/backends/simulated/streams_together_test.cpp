// Many streams of one device at once, with the thread sanitizer in mind: host threads that enqueue, allocate, free and
// wait side by side.
#include <gtest/gtest.h>

#include <thread>

#include "backends/simulated/simulated_memory.h"

namespace tessera::test::streams_together_test {
namespace {

using backends::simulated::Options;
using backends::simulated::SimulatedEvent;
using backends::simulated::SimulatedMachine;
using backends::simulated::SimulatedMemory;
using backends::simulated::SimulatedStream;

Options small_device() {
  Options options;
  options.profile_name = "small";
  options.profile.bandwidth = 1e12;
  options.profile.overhead_seconds = 1e-6;
  options.memory_bytes = options.profile.memory_bytes = 1 << 20;
  return options;
}

// Takes a number up on one stream and down on another, `rounds` times, each time in memory that is freed on the way.
// Returns how many came back as they were.
int numbers_that_come_back(SimulatedMachine& machine, SimulatedMemory& memory, int first, int rounds) {
  SimulatedStream up(machine), down(machine);
  SimulatedEvent arrived(machine), left(machine);
  int right = 0;
  for (int round = 0; round < rounds; ++round) {
    const int given = first + round;
    int returned = 0;
    void* const block = memory.allocate(100'000, &up);
    void* const copy = memory.allocate(100'000, &up);
    up.copy_to_device(block, &given, sizeof given);
    up.copy_within(copy, block, sizeof given);
    up.record(arrived);
    down.wait(arrived);
    down.copy_to_host(&returned, copy, sizeof returned);
    down.record(left);
    up.wait(left);
    memory.free(block, &up);
    memory.free(copy, &up);
    if (round % 3 == 0) left.wait();
    else down.synchronise();
    right += returned == given ? 1 : 0;
  }
  up.synchronise();
  return right;
}

TEST(SimulatedStreams, KeepTheirOrderBesideOthers) {
  SimulatedMachine machine(small_device());
  SimulatedMemory memory(machine);
  constexpr int threads = 4, rounds = 100;
  int right[threads] = {};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] { right[t] = numbers_that_come_back(machine, memory, 1000 * t, rounds); });
  }
  for (std::thread& thread : running) thread.join();
  for (const int count : right) EXPECT_EQ(count, rounds);
}

}  // namespace
}  // namespace tessera::test::streams_together_test
