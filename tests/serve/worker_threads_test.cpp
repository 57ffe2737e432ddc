#include "serve/core/requests/worker_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "support/error_of.h"

namespace tessera::serve::worker_threads_test {
namespace {

constexpr std::size_t kStackBytes = std::size_t{1} << 30, kMostBytes = std::size_t{8} << 30;

// Ends the process with 0 where starting 16 threads, whose stacks find no addresses, fails as it should.
[[noreturn]] void start_too_many() {
  const rlimit addresses{kMostBytes, kMostBytes};
  ::setrlimit(RLIMIT_AS, &addresses);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_setattr_default_np(&attributes);
  std::atomic<bool> stops = false;
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  const auto work = [&] {
    stops.wait(false);
    ++ended;
  };
  const auto stop = [&] {
    stops = true;
    stops.notify_all();
  };
  const std::string error = test::error_of([&] { start_workers(threads, 16, work, stop); });
  const bool is_clear = error.starts_with("the model needs 16 threads, and the system gave ");
  std::_Exit(is_clear && threads.empty() && ended > 0 ? 0 : 1);
}

TEST(WorkerThreads, EndWhereTheSystemGivesNoMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need more addresses than the limit leaves";
#endif
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tessera::serve::worker_threads_test
