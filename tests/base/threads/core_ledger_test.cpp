#include "base/threads/core_ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/numbers/philox.h"
#include "base/threads/clock.h"
#include "base/threads/thread_pool.h"
#include "base/threads/yield_point.h"

namespace tessera::test::core_ledger_test {
namespace {

using base::CoreLedger;
using base::ThreadPool;
using base::VirtualClock;
using CoreLease = ThreadPool::CoreLease;

constexpr std::int64_t kMillisecond = 1'000'000;

// Computes for `duration_ns` of virtual time, with a step of `step_ns` between two chances for others.
void compute(VirtualClock& clock, CoreLease& lease, std::int64_t duration_ns, std::int64_t step_ns) {
  for (std::int64_t done = 0; done < duration_ns; done += step_ns) {
    if (done > 0) lease.take_turns();
    clock.sleep_until(clock.now_ns() + step_ns);
  }
}

TEST(CoreLedger, HigherClassesGoFirst) {
  ThreadPool pool(1);
  VirtualClock clock;
  std::string order;
  const auto run = [&](Priority priority, std::int64_t arrival_ms, char name) -> std::function<void()> {
    return [&, priority, arrival_ms, name] {
      clock.sleep_until(arrival_ms * kMillisecond);
      const CoreLease lease(pool, priority, clock);
      order += name;
      clock.sleep_until(clock.now_ns() + 10 * kMillisecond);
    };
  };
  clock.run({run(Priority::standard, 0, 'a'), run(Priority::background, 1, 'b'), run(Priority::standard, 2, 's'),
             run(Priority::realtime, 3, 'r'), run(Priority::standard, 4, 't')});
  EXPECT_EQ(order, "arstb");
}

TEST(CoreLedger, EqualClassesTakeTurnsBetweenSteps) {
  ThreadPool pool(1);
  VirtualClock clock;
  std::vector<std::int64_t> ends(4);
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    bodies.push_back([&, i] {
      CoreLease lease(pool, Priority::standard, clock);
      compute(clock, lease, 10 * CoreLedger::kTurnNs, kMillisecond);
      ends[i] = clock.now_ns();
    });
  }
  clock.run(bodies);
  EXPECT_EQ(clock.now_ns(), 40 * CoreLedger::kTurnNs);
  // One after the other, the first would be done after a quarter of the time.
  for (const std::int64_t end : ends) EXPECT_GT(end, 33 * CoreLedger::kTurnNs);
}

// The times between the beginning and the end of each thread's runs, in its order, of threads that run `durations`
// back to back on one core.
std::vector<std::vector<std::int64_t>> latencies(const std::vector<std::int64_t>& durations, int runs) {
  ThreadPool pool(1);
  VirtualClock clock;
  std::vector<std::vector<std::int64_t>> result(durations.size());
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < durations.size(); ++i) {
    bodies.push_back([&, i] {
      for (int run = 0; run < runs; ++run) {
        const std::int64_t begin = clock.now_ns();
        CoreLease lease(pool, Priority::standard, clock);
        compute(clock, lease, durations[i], kMillisecond);
        result[i].push_back(clock.now_ns() - begin);
      }
    });
  }
  clock.run(bodies);
  return result;
}

// Once the lengths of the runs are known, none of them waits longer than for one run of each of the others.
TEST(CoreLedger, RunsOfEqualLengthDoNotInterruptEachOther) {
  const std::int64_t duration = 5 * CoreLedger::kTurnNs;
  for (const std::vector<std::int64_t>& thread : latencies({duration, duration, duration, duration}, 6))
    for (std::size_t run = 2; run < thread.size(); ++run) EXPECT_LE(thread[run], 4 * duration) << "run " << run;
}

// A thread that runs short runs beside two with long ones waits for a turn of each, not for a run.
TEST(CoreLedger, LongRunsAreInterruptedForShortOnes) {
  const std::int64_t length = 10 * CoreLedger::kTurnNs, shortest = CoreLedger::kTurnNs / 4;
  const auto result = latencies({shortest, length, length}, 8);
  for (std::size_t run = 1; run < result[0].size(); ++run)
    EXPECT_LE(result[0][run], 4 * CoreLedger::kTurnNs + shortest) << "run " << run;
}

// A run that ends within its turn and comes again at once has the core for its whole turn, not longer.
TEST(CoreLedger, AThreadThatComesBackKeepsItsCoreForItsTurn) {
  ThreadPool pool(1);
  VirtualClock clock;
  std::string order;
  std::vector<std::function<void()>> bodies;
  for (const char name : {'a', 'b', 'c'}) {
    bodies.push_back([&, name] {
      for (int run = 0; run < 40; ++run) {
        const CoreLease lease(pool, Priority::standard, clock);
        if (order.empty() || order.back() != name) order += name;
        clock.sleep_until(clock.now_ns() + CoreLedger::kTurnNs / 8);
      }
    });
  }
  clock.run(bodies);
  // A core is kept in vain when a thread's last run has ended, for a moment.
  EXPECT_LE(clock.now_ns(), 15 * CoreLedger::kTurnNs + 3 * kMillisecond);
  EXPECT_LE(order.size(), 18u + 3u) << order;  // each begins with a run of its own before it is known to come back
  EXPECT_GE(order.size(), 15u) << order;
}

TEST(CoreLedger, AKeptCoreIsFreeAgainWhenItsThreadStaysAway) {
  ThreadPool pool(1);
  VirtualClock clock;
  std::int64_t waited_until = 0;
  clock.run({[&] {
               for (int run = 0; run < 3; ++run) {
                 const CoreLease lease(pool, Priority::standard, clock);
                 clock.sleep_until(clock.now_ns() + 10'000);
               }
             },
             [&] {
               clock.sleep_until(15'000);
               const CoreLease lease(pool, Priority::standard, clock);
               waited_until = clock.now_ns();
             }});
  EXPECT_GE(waited_until, 20'000);
  EXPECT_LE(waited_until, 30'000 + 2 * kMillisecond);
}

TEST(CoreLedger, ARealtimeRunTakesTheCoresWithinAStepAndHoldsThem) {
  ThreadPool pool(2);
  std::atomic<bool> stop{false}, realtime{false};
  std::atomic<int> overlaps{0}, chunks{0};
  std::thread background([&] {
    const CoreLease lease(pool);
    while (!stop) {
      pool.parallel_for(1000, 1, 0, [&](std::int64_t, std::int64_t) {
        ++chunks;
        const bool before = realtime;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        if (before && realtime) ++overlaps;
      });
    }
  });
  for (int round = 0; round < 20; ++round) {
    const int chunks_before = chunks;
    while (chunks == chunks_before) std::this_thread::yield();
    const CoreLease lease(pool, Priority::realtime);
    for (int wait = 0; lease.cores() < 2 && wait < 1000; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(lease.cores(), 2);
    realtime = true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    realtime = false;
  }
  stop = true;
  background.join();
  EXPECT_EQ(overlaps, 0);
}

// Chunks that ask whether to stop let a realtime run in, and are as they were afterwards.
TEST(CoreLedger, AChunkWaitsWithItsWorkspaceUntouched) {
  ThreadPool pool(1);
  std::atomic<bool> begun{false}, has_run{false};
  int workspace = 0;
  std::thread background([&] {
    const CoreLease lease(pool, Priority::background);
    pool.parallel_for(1, 1, 0, [&](std::int64_t, std::int64_t) {
      workspace = 42;
      begun = true;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!has_run && std::chrono::steady_clock::now() < end) base::yield_point();
      EXPECT_TRUE(has_run);
      EXPECT_EQ(workspace, 42);
    });
  });
  while (!begun) std::this_thread::yield();
  {
    const CoreLease lease(pool, Priority::standard);
    has_run = true;
  }
  background.join();
}

// A helper that waits within its chunk for a core must get the one of its caller, which waits for the helper.
TEST(CoreLedger, ACallerGivesItsCoreToItsWaitingHelper) {
  ThreadPool pool(2);
  std::atomic<bool> stop{false};
  std::thread realtime([&] {
    while (!stop) {
      {
        const CoreLease lease(pool, Priority::realtime, Clock::steady(), 1);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  std::int64_t sum = 0;
  {
    const CoreLease lease(pool);
    while (std::chrono::steady_clock::now() < end) {
      std::atomic<std::int64_t> visits{0};
      pool.parallel_for(4, 1, 0, [&](std::int64_t, std::int64_t) {
        for (int i = 0; i < 50; ++i) {
          base::yield_point();
          std::this_thread::sleep_for(std::chrono::microseconds(10));
        }
        ++visits;
      });
      ASSERT_EQ(visits, 4);
      sum += visits;
    }
  }
  EXPECT_GT(sum, 0);
  stop = true;
  realtime.join();
}

// Runs of all classes, with loops, chances for others, and pauses, drawn from a seed.
TEST(CoreLedger, ComputesNoMoreThanTheCoresUnderStress) {
  constexpr int kCores = 3, kThreads = 9;
  ThreadPool pool(kCores);
  std::atomic<int> computing{0}, most{0};
  std::atomic<std::int64_t> visits{0};
  std::int64_t expected = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    constexpr int kRuns = 40, kLoops = 6, kChunks = 12;
    expected += kRuns * kLoops * kChunks;
    threads.emplace_back([&, t] {
      base::Philox random(17, static_cast<std::uint64_t>(t));
      for (int run = 0; run < kRuns; ++run) {
        if (random.next_integer(0, 3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
        const auto cores = static_cast<int>(random.next_integer(1, 3));
        CoreLease lease(pool, static_cast<Priority>(t % 3), Clock::steady(), cores);
        for (int loop = 0; loop < kLoops; ++loop) {
          lease.take_turns();
          if (random.next_integer(0, 9) == 0) {
            lease.release();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            lease.acquire();
          }
          pool.parallel_for(kChunks, 1, 0, [&](std::int64_t begin, std::int64_t) {
            if (begin % 4 == 0) base::yield_point();
            const int now = ++computing;
            for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
            }
            for (int i = 0; i < 200; ++i) visits.fetch_add(0, std::memory_order_relaxed);
            --computing;
            ++visits;
          });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(visits, expected);
  EXPECT_LE(most, kCores);
}

// Sessions of all classes whose steps take times drawn from a seed: who computed when is the same each time.
std::string turns_in_virtual_time(std::uint64_t seed) {
  ThreadPool pool(2);
  VirtualClock clock(seed);
  std::string events;
  std::vector<std::function<void()>> bodies;
  for (int t = 0; t < 7; ++t) {
    bodies.push_back([&, t] {
      base::Philox random(seed, static_cast<std::uint64_t>(t));
      for (int run = 0; run < 6; ++run) {
        CoreLease lease(pool, static_cast<Priority>(t % 3), clock);
        for (int step = 0; step < 5; ++step) {
          lease.take_turns();
          events += static_cast<char>('a' + t);
          clock.sleep_until(clock.now_ns() + random.next_integer(1, 3) * kMillisecond);
        }
      }
    });
  }
  clock.run(bodies);
  return events + std::to_string(clock.now_ns());
}

TEST(CoreLedger, EqualSeedsGiveEqualTurns) {
  const std::string first = turns_in_virtual_time(5);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(turns_in_virtual_time(5), first);
  EXPECT_NE(turns_in_virtual_time(6), first);
}

}  // namespace
}  // namespace tessera::test::core_ledger_test
