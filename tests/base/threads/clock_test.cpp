#include "base/threads/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/numbers/philox.h"
#include "base/threads/stop_signal.h"
#include "tessera/error.h"

namespace tessera::test::clock_test {
namespace {

using base::VirtualClock;

TEST(SteadyClock, GoesOnAndWakesWaitingThreads) {
  Clock& clock = Clock::steady();
  const std::int64_t start = clock.now_ns();
  clock.sleep_until(start + 2'000'000);
  EXPECT_GE(clock.now_ns(), start + 2'000'000);
  const std::unique_ptr<Clock::Signal> signal = clock.make_signal();
  EXPECT_FALSE(signal->wait_until(clock.now_ns() + 1'000'000));
  std::thread other([&] { signal->notify(); });
  signal->wait();
  other.join();
  signal->notify();  // before the wait
  EXPECT_TRUE(signal->wait_until(clock.now_ns()));
}

TEST(VirtualClock, TimeGoesOnOnlyWhileAllWait) {
  VirtualClock clock(7, 1000);
  std::vector<std::pair<std::int64_t, int>> events;
  const auto sleeper = [&](int name, std::int64_t period, int times) {
    return [&clock, &events, name, period, times] {
      for (int i = 0; i < times; ++i) {
        clock.sleep_until(clock.now_ns() + period);
        events.emplace_back(clock.now_ns(), name);  // one thread runs at a time
      }
    };
  };
  clock.run({sleeper(0, 300, 3), sleeper(1, 500, 2)});
  EXPECT_EQ(events, (std::vector<std::pair<std::int64_t, int>>{{1300, 0}, {1500, 1}, {1600, 0}, {1900, 0}, {2000, 1}}));
  EXPECT_EQ(clock.now_ns(), 2000);
}

TEST(VirtualClock, WaitingForAnotherThreadTakesItsTime) {
  VirtualClock clock;
  const std::unique_ptr<Clock::Signal> signal = clock.make_signal(), never = clock.make_signal();
  std::int64_t woken = 0, gave_up = 0;
  clock.run({[&] {
               signal->wait();
               woken = clock.now_ns();
               EXPECT_FALSE(never->wait_until(woken + 5));
               gave_up = clock.now_ns();
             },
             [&] {
               clock.sleep_until(40);
               signal->notify();
               clock.sleep_until(90);
             }});
  EXPECT_EQ(woken, 40);
  EXPECT_EQ(gave_up, 45);
  EXPECT_EQ(clock.now_ns(), 90);
}

// Many threads that meet at the same times, sleep and notify each other.
std::string events_of(std::uint64_t seed) {
  VirtualClock clock(seed);
  std::string events;
  std::vector<std::unique_ptr<Clock::Signal>> signals;
  for (int i = 0; i < 6; ++i) signals.push_back(clock.make_signal());
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < 6; ++i) {
    bodies.push_back([&, i] {
      base::Philox random(99, static_cast<std::uint64_t>(i));
      for (int round = 0; round < 20; ++round) {
        events += static_cast<char>('a' + i);
        signals[static_cast<std::size_t>((i + 1) % 6)]->notify();
        if (round % 3 == 0) signals[static_cast<std::size_t>(i)]->wait_until(clock.now_ns() + 10);
        clock.sleep_until(clock.now_ns() + random.next_integer(0, 2) * 10);
      }
    });
  }
  clock.run(bodies);
  return events + std::to_string(clock.now_ns());
}

TEST(VirtualClock, EqualSeedsGiveEqualOrders) {
  const std::string first = events_of(1);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(events_of(1), first);
  EXPECT_NE(events_of(2), first);
}

TEST(VirtualClock, PassesErrorsOnAndRunsAgain) {
  VirtualClock clock;
  EXPECT_THROW(clock.run({[] { throw std::runtime_error("body"); }, [&] { clock.sleep_until(10); }}),
               std::runtime_error);
  EXPECT_EQ(clock.now_ns(), 10);
  clock.run({[&] { clock.sleep_until(20); }});
  EXPECT_EQ(clock.now_ns(), 20);
}

TEST(VirtualClock, LimitsCountInIt) {
  VirtualClock clock;
  const base::StopSignal stop(nullptr, std::chrono::seconds(5), clock);
  stop.check();
  clock.sleep_until(5'000'000'000);
  stop.check();
  clock.sleep_until(5'000'000'001);
  try {
    stop.check();
    FAIL() << "the limit is over";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::over_budget);
    EXPECT_NE(std::string(error.what()).find("the run takes longer than its limit of 5"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera::test::clock_test
