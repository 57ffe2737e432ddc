#include "base/threads/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/numbers/float_state.h"
#include "base/threads/thread_spans.h"

namespace tessera::test::thread_pool_test {
namespace {

using base::ThreadPool;
using Range = std::pair<std::int64_t, std::int64_t>;

std::set<Range> chunks_of(ThreadPool& pool, std::int64_t count, std::int64_t grain, int max_threads) {
  std::mutex mutex;
  std::set<Range> chunks;
  ThreadPool::CoreLease lease(pool);
  pool.parallel_for(count, grain, max_threads, [&](std::int64_t begin, std::int64_t end) {
    std::lock_guard lock(mutex);
    chunks.emplace(begin, end);
  });
  return chunks;
}

TEST(ThreadPool, HelpersTakeOnTheCallersFloatingPointState) {
  ThreadPool pool(4);
  const std::uint32_t before = base::float_state();
  for (const bool flushes : {true, false}) {
    const base::FlushedDenormals scope(flushes);
    const auto caller = std::this_thread::get_id();
    const std::uint32_t wanted = base::float_state();
    ThreadPool::CoreLease lease(pool);
    std::atomic<int> by_helpers = 0;
    for (int round = 0; round < 1000 && by_helpers == 0; ++round) {  // helpers may come too late
      pool.parallel_for(64, 1, 0, [&](std::int64_t, std::int64_t) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (std::this_thread::get_id() != caller) ++by_helpers;
        EXPECT_EQ(base::float_state(), wanted);
      });
    }
    EXPECT_GT(by_helpers, 0);
  }
  EXPECT_EQ(base::float_state(), before);
}

TEST(ThreadPool, LoopsAreRecordedWhileSomeoneAsks) {
  ThreadPool pool(4);
  base::ThreadSpans spans(pool.cores());
  const auto loop = [&] {
    ThreadPool::CoreLease lease(pool);
    std::atomic<int> chunks = 0;
    pool.parallel_for(64, 1, 0, [&](std::int64_t, std::int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      ++chunks;
    });
    return chunks.load();
  };
  loop();
  EXPECT_TRUE(spans.all().empty());
  const base::RecordedLoops recorded(spans);
  EXPECT_EQ(base::recorded_loops(), &spans);
  const int chunks = loop();
  std::int64_t sum = 0;
  std::set<int> threads;
  for (const base::ThreadSpan& span : spans.all()) {
    sum += span.chunks;
    EXPECT_GE(span.end_ns - span.start_ns, span.chunks * 100'000);
    EXPECT_TRUE(threads.insert(span.thread).second);
  }
  EXPECT_EQ(sum, chunks);
  EXPECT_TRUE(threads.contains(0));
  // What another thread computes meanwhile is no part of it.
  std::thread(loop).join();
  EXPECT_EQ(spans.all().size(), threads.size());
}

TEST(ThreadPool, CoversEverythingOnce) {
  for (const int cores : {4, 20}) {
    ThreadPool pool(cores);
    for (std::int64_t grain : {1, 3, 64, 1000, 5000}) {
      std::vector<std::atomic<int>> visits(1000);
      ThreadPool::CoreLease lease(pool);
      pool.parallel_for(1000, grain, 0, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& count : visits) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, SkipsChunksBehindAnError) {
  ThreadPool pool(1);
  ThreadPool::CoreLease lease(pool);
  int visits = 0;
  const auto fail = [&](std::int64_t, std::int64_t) {
    ++visits;
    throw std::runtime_error("chunk");
  };
  EXPECT_THROW(pool.parallel_for(10, 1, 0, fail), std::runtime_error);
  EXPECT_EQ(visits, 1);
}

TEST(ThreadPool, ThreadsBeginWithTheSamePartOfEachLoop) {
  for (const int cores : {2, 4}) {  // of which the loops take two
    ThreadPool pool(cores);
    ThreadPool::CoreLease lease(pool);
    const auto caller = std::this_thread::get_id();
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> begun = 0;
      std::vector<std::thread::id> threads(8);
      pool.parallel_for(8, 1, 2, [&](std::int64_t chunk, std::int64_t) {
        threads[static_cast<std::size_t>(chunk)] = std::this_thread::get_id();
        ++begun;
        while (begun < 2) std::this_thread::yield();  // the helper is sure to come
      });
      EXPECT_EQ(threads[0], caller);
      EXPECT_NE(threads[4], caller);
    }
  }
}

TEST(ThreadPool, ChunksDoNotDependOnThreads) {
  ThreadPool one(1), four(4);
  const std::set<Range> expected{{0, 4}, {4, 8}, {8, 10}};  // units of 4
  EXPECT_EQ(chunks_of(one, 10, 4, 0), expected);
  EXPECT_EQ(chunks_of(four, 10, 4, 0), expected);
  EXPECT_EQ(chunks_of(four, 10, 4, 2), expected);
}

TEST(ThreadPool, FewChunksAreEvenedOut) {
  ThreadPool pool(4);
  EXPECT_EQ(chunks_of(pool, 14, 5, 0), (std::set<Range>{{0, 3}, {3, 7}, {7, 10}, {10, 14}}));  // halves are equal
  EXPECT_EQ(chunks_of(pool, 99, 35, 0), (std::set<Range>{{0, 24}, {24, 49}, {49, 74}, {74, 99}}));
  EXPECT_EQ(chunks_of(pool, 300, 128, 0),
            (std::set<Range>{{0, 64}, {64, 128}, {128, 192}, {192, 300}}));  // whole units of 64
  EXPECT_EQ(chunks_of(pool, 99, 60, 0), (std::set<Range>{{0, 60}, {60, 99}}));
  EXPECT_EQ(chunks_of(pool, 1000, 10, 0).size(), 100u);
}

TEST(ThreadPool, TakesOddCounts) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  ThreadPool pool(2);
  EXPECT_TRUE(chunks_of(pool, 0, 4, 0).empty());
  EXPECT_TRUE(chunks_of(pool, -5, 4, 0).empty());
  EXPECT_EQ(chunks_of(pool, 2, 0, 0), (std::set<Range>{{0, 1}, {1, 2}}));
  EXPECT_EQ(chunks_of(pool, kLargest, kLargest - 1, 0), (std::set<Range>{{0, kLargest - 1}, {kLargest - 1, kLargest}}));
}

TEST(ThreadPool, RethrowsAndRecovers) {
  ThreadPool pool(3);
  ThreadPool::CoreLease lease(pool);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.parallel_for(100, 1, 0,
                                   [](std::int64_t begin, std::int64_t) {
                                     if (begin % 10 == 7) throw std::runtime_error("chunk");
                                   }),
                 std::runtime_error);
    std::atomic<int> visits{0};
    pool.parallel_for(10, 1, 0, [&](std::int64_t, std::int64_t) { ++visits; });
    ASSERT_EQ(visits, 10);
  }
}

TEST(ThreadPool, NestedLoopsRunOnTheCallingThread) {
  ThreadPool pool(3);
  ThreadPool::CoreLease lease(pool);
  std::atomic<int> visits{0}, strangers{0};
  pool.parallel_for(6, 1, 0, [&](std::int64_t, std::int64_t) {
    const std::thread::id self = std::this_thread::get_id();
    pool.parallel_for(5, 1, 0, [&](std::int64_t, std::int64_t) {
      ++visits;
      if (std::this_thread::get_id() != self) ++strangers;
    });
  });
  EXPECT_EQ(visits, 30);
  EXPECT_EQ(strangers, 0);
}

// Many callers: whoever computes holds a core, so never more than `cores` threads are inside loop bodies.
TEST(ThreadPool, NeverOversubscribes) {
  constexpr int kCores = 2, kCallers = 12;
  ThreadPool pool(kCores);
  std::atomic<int> computing{0}, most{0}, visits{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      for (int run = 0; run < 10; ++run) {
        ThreadPool::CoreLease lease(pool);
        ThreadPool::CoreLease again(pool);  // free
        pool.parallel_for(8, 1, 0, [&](std::int64_t, std::int64_t) {
          const int now = ++computing;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
          std::this_thread::sleep_for(std::chrono::microseconds(20));
          --computing;
          ++visits;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(visits, kCallers * 10 * 8);
  EXPECT_LE(most, kCores);
  EXPECT_GE(most, 1);
}

TEST(ThreadPool, HelpersShareTheWork) {
  ThreadPool pool(2);
  ThreadPool::CoreLease lease(pool);
  // Both chunks wait until both have begun: this ends only when a second thread helps. A helper may be late to one
  // loop, so the wait is bounded and the loop repeated.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::atomic<int> begun{0}, met{0};
    pool.parallel_for(2, 1, 0, [&](std::int64_t, std::int64_t) {
      ++begun;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      while (begun < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      if (begun == 2) ++met;
    });
    if (met == 2) return;
  }
  FAIL() << "no helper came in 100 loops";
}

}  // namespace
}  // namespace tessera::test::thread_pool_test
