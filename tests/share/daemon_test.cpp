#include "share/daemon.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "lease/attachment.h"
#include "lease/messages.h"
#include "support/expect_error.h"
#include "support/sanitized.h"
#include "tessera/error.h"
#include "tessera/share.h"

namespace tessera::share::daemon_test {
namespace {

std::int64_t now() {
  return Clock::steady().now_ns();
}

void until(const std::function<bool()>& holds) {
  const std::int64_t end = now() + 20'000'000'000 * test::kPatience;
  while (!holds() && now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(holds());
}

class Daemons : public testing::Test {
 protected:
  Daemons()
      : folder_(std::filesystem::temp_directory_path() / ("tessera-daemon-test-" + std::to_string(getpid()))),
        socket_((folder_ / "share.sock").string()) {
    start();
  }
  ~Daemons() override {
    stop();
    std::filesystem::remove_all(folder_);
  }
  void start(const std::string& policy = "fair") {
    stop_ = std::make_unique<Cancellation>();
    daemon_ = std::make_unique<Daemon>(DaemonOptions{.socket = socket_, .policy = policy});
    thread_ = std::thread([this] { daemon_->serve(*stop_); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    stop_->cancel();
    thread_.join();
    daemon_.reset();
  }
  lease::JobDescription job(const std::string& name, Priority priority = Priority::standard) const {
    return {.socket = socket_, .name = name, .priority = priority};
  }

  const std::filesystem::path folder_;
  const std::string socket_;
  std::unique_ptr<Cancellation> stop_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
};

// Runs of ten steps, one after the other, in the form that Session::run gives them.
void run(lease::Attachment& attachment, std::atomic<int>* computing = nullptr, std::atomic<int>* together = nullptr) {
  lease::ProcessRun run(&attachment);
  for (int step = 0; step < 10; ++step) {
    while (!run.may_pass({.index = step, .op = "Add", .operations = 1e6})) run.wait();
    if (computing == nullptr) continue;
    if (++*computing > 1) ++*together;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --*computing;
  }
  run.succeeded();
}

TEST_F(Daemons, LetJobsOfAClassTakeTurns) {
  lease::Attachment one(job("one")), two(job("two"));
  ASSERT_TRUE(one.is_attached() && two.is_attached());
  std::atomic<int> computing{0}, together{0}, steps{0};
  std::atomic<bool> done{false};
  const auto work = [&](lease::Attachment& attachment, std::atomic<int>& runs) {
    while (!done) {
      run(attachment, &computing, &together);
      ++runs;
      steps += 10;
    }
  };
  std::atomic<int> first{0}, second{0};
  std::thread a(work, std::ref(one), std::ref(first)), b(work, std::ref(two), std::ref(second));
  until([&] { return first > 20 && second > 20; });
  done = true;
  a.join();
  b.join();
  EXPECT_LT(together, steps / 5) << "steps beside steps of the other job: where the daemon grants the next turn before "
                                    "the former one has been given up";
}

// A training whose runs follow each other without a pause, on one thread or overlapping on several.
TEST_F(Daemons, EndATurnOfFifoWithTheRunThatHasIt) {
  stop();
  start("fifo");
  for (const std::size_t threads : {1u, 3u}) {
    lease::Attachment training(job("training", Priority::background)), service(job("service", Priority::realtime));
    std::atomic<bool> done{false};
    std::atomic<int> training_runs{0}, computing{0}, together{0};
    std::vector<std::thread> trainers;
    for (std::size_t i = 0; i < threads; ++i)
      trainers.emplace_back([&] {
        for (; !done; ++training_runs) run(training, &computing, &together);
      });
    until([&] { return training_runs > 3; });
    const int before = training_runs;
    std::atomic<int> service_runs{0};
    std::thread serving([&] {
      for (; service_runs < 20; ++service_runs) run(service);
      done = true;
    });
    until([&] { return done.load(); });
    const int beside = training_runs - before;
    done = true;
    for (std::thread& trainer : trainers) trainer.join();
    serving.join();
    EXPECT_LE(beside, 20 * 4 * static_cast<int>(threads)) << "runs of the training while 20 others came, one by one";
  }
}

TEST_F(Daemons, MayGoAndComeWhileJobsRun) {
  lease::Attachment one(job("one")), two(job("two", Priority::background));
  std::atomic<bool> done{false};
  std::atomic<int> runs{0};
  std::thread work([&] {
    for (; !done; ++runs) run(two);
  });
  for (int i = 0; i < 3; ++i) {
    stop();
    until([&] { return !one.is_attached() && !two.is_attached(); });
    const int before = runs;
    until([&] { return runs > before; });
    start();
    until([&] { return one.is_attached() && two.is_attached(); });
  }
  done = true;
  work.join();
}

TEST_F(Daemons, CostAnUndisturbedRunMicroseconds) {
  lease::Attachment only(job("only"));
  for (int i = 0; i < 1000; ++i) run(only);
  std::int64_t least = INT64_MAX;
  for (int round = 0; round < 20; ++round) {
    const std::int64_t begin = now();
    for (int i = 0; i < 500; ++i) run(only);
    least = std::min(least, (now() - begin) / 500);
  }
  RecordProperty("ns_a_run_of_ten_steps", static_cast<int>(least));
  EXPECT_LT(least, test::kSanitized ? 2'000'000 : 20'000);
}

TEST_F(Daemons, AccountForMemoryInPieces) {
  lease::Attachment only(job("only"));
  for (int i = 0; i < 100; ++i) only.charge(10 << 20, "weights");
  for (int i = 0; i < 100; ++i) only.release(10 << 20);
  EXPECT_THROW(only.charge(std::int64_t{1} << 50, "weights"), Error);
  EXPECT_NO_THROW(only.charge(1 << 20, "weights"));
}

TEST_F(Daemons, CountFunctionsAsRunsOfTheProcess) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv(lease::kSocketVariable, socket_.c_str(), 1);
    setenv(lease::kNameVariable, "functions", 1);
    execl(TESSERA_PROCESS_OF_FUNCTIONS, "process_of_functions", nullptr);
    _exit(127);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state));
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST_F(Daemons, LeaveAFileThatIsNoSocketAlone) {
  const std::filesystem::path file = folder_ / "precious.txt";
  std::ofstream(file) << "x";
  test::expect_error_containing(ErrorKind::invalid_argument, "is there, and is no socket",
                                [&] { Daemon(DaemonOptions{.socket = file.string()}); });
  EXPECT_EQ(std::filesystem::file_size(file), 1u);
}

}  // namespace
}  // namespace tessera::share::daemon_test
