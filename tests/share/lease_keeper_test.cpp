#include "share/lease_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/error.h"

namespace tessera::share::lease_keeper_test {
namespace {

using lease::Activity;

// A keeper whose processes are this test: it writes to the board what they would.
class Board {
 public:
  explicit Board(const std::string& policy = "fill") : keeper(policy, 1 << 30) {}

  int add(const std::string& name, Priority priority, std::int64_t goal_ns = 0, double weight = 1) {
    const int number =
        keeper.add_job({.name = name, .priority = priority, .weight = weight, .goal_ns = goal_ns}, getpid(), now_ns);
    return number;
  }
  lease::BoardSlot& slot(int job) { return keeper.board()->slots[static_cast<std::size_t>(job)]; }
  bool granted(int job) { return slot(job).granted.load() != 0; }
  Priority class_of(int job) { return static_cast<Priority>(slot(job).priority.load()); }

  // As Attachment::settle does: the process looks at its slot and states what it does.
  void run(int job) {
    if (slot(job).activity.load() == Activity::idle) slot(job).arrival_ns = now_ns;
    ++slot(job).progress;
    slot(job).activity = granted(job) ? Activity::computes : Activity::waits;
    if (granted(job)) keeper.board()->set_active(job, class_of(job));
    else keeper.board()->clear_active(job, class_of(job));
  }
  void end(int job) {
    slot(job).activity = Activity::idle;
    keeper.board()->clear_active(job, class_of(job));
  }
  void look_after(std::int64_t ns) {
    now_ns += ns;
    keeper.look(now_ns);
  }

  LeaseKeeper keeper;
  std::int64_t now_ns = 1'000'000'000;
};

constexpr std::int64_t kMs = 1'000'000;

TEST(LeaseKeeper, LendsGuaranteesToBackgroundJobsUntilTheyAreClaimed) {
  constexpr std::int64_t kMib = 1 << 20;
  Board board;
  LeaseKeeper& keeper = board.keeper;
  EXPECT_EQ(keeper.board()->has_memory_limit, 1u);
  const int search = keeper.add_job({.name = "search", .priority = Priority::realtime, .guarantee_bytes = 512 * kMib},
                                    getpid(), board.now_ns);
  const int training = board.add("training", Priority::background);
  ASSERT_TRUE(keeper.borrow(training, 1000 * kMib, 0, 0));
  keeper.charge(search, 500 * kMib, "weights");
  EXPECT_EQ(board.slot(training).wanted_bytes, 476 * kMib);
  keeper.give_back(training, 1000 * kMib, 0);
  EXPECT_EQ(board.slot(training).wanted_bytes, 0);
  EXPECT_FALSE(keeper.borrow(training, 1000 * kMib, 0, 0));
  EXPECT_THROW(keeper.borrow(training, 1025 * kMib, 0, 0), Error);
  EXPECT_THROW(keeper.release(training, 1), Error) << "what is borrowed is not the job's own";
  EXPECT_THROW(keeper.give_back(training, 1, 0), Error);
  EXPECT_THROW(keeper.borrow(search, 1, 0, 0), Error) << "only background jobs borrow";
  keeper.release(search, 500 * kMib);
  EXPECT_TRUE(keeper.borrow(training, 1000 * kMib, 0, 0));
  keeper.charge(search, 512 * kMib, "weights");
  keeper.remove_job(training, board.now_ns);
  EXPECT_EQ(keeper.report()[0].memory_bytes, 512 * kMib);
}

TEST(LeaseKeeper, GivesWhoIsAloneAStandingGrant) {
  Board board;
  const int only = board.add("only", Priority::background);
  EXPECT_TRUE(board.granted(only));
  board.run(only);
  board.look_after(50 * kMs);
  EXPECT_TRUE(board.granted(only));
}

TEST(LeaseKeeper, LetsARealtimeRunBeginUnaskedAndHoldsBackgroundMeanwhile) {
  Board board;
  const int background = board.add("background", Priority::background),
            realtime = board.add("realtime", Priority::realtime, 10 * kMs);
  board.run(background);
  board.look_after(kMs);
  EXPECT_TRUE(board.granted(background));
  EXPECT_TRUE(board.granted(realtime)) << "an idle job of a higher class begins without asking";
  board.run(realtime);
  board.look_after(kMs);
  EXPECT_TRUE(board.granted(realtime));
  EXPECT_NE(board.keeper.board()->active_above(Priority::background), 0u) << "which is what holds background";
  board.look_after(8 * kMs);
  board.end(realtime);
  EXPECT_EQ(board.keeper.board()->active_above(Priority::background), 0u);
  EXPECT_TRUE(board.granted(background)) << "it goes on without waiting for the daemon to look";
}

TEST(LeaseKeeper, HoldsBackgroundBackAfterMissedGoals) {
  Board board;
  const int background = board.add("background", Priority::background),
            realtime = board.add("realtime", Priority::realtime, kMs);
  board.run(background);
  board.look_after(kMs);
  board.run(realtime);
  board.look_after(5 * kMs);
  board.look_after(5 * kMs);  // its goal is 1 ms
  board.end(realtime);
  board.look_after(kMs);
  board.run(realtime);
  board.look_after(kMs);
  EXPECT_FALSE(board.granted(background)) << "it has to ask before it goes on";
  board.run(background);
  board.end(realtime);
  board.look_after(kMs / 10);
  EXPECT_FALSE(board.granted(background));
  for (int i = 0; i < 40 && !board.granted(background); ++i) board.look_after(kMs);
  EXPECT_TRUE(board.granted(background)) << "as soon as the pause is over";
}

TEST(LeaseKeeper, EndsATermWhenAnotherJobOfTheClassWaits) {
  Board board;
  const int one = board.add("one", Priority::standard), two = board.add("two", Priority::standard);
  board.run(one);
  board.look_after(kMs);
  EXPECT_FALSE(board.granted(two));
  board.run(two);
  board.look_after(kMs);
  EXPECT_TRUE(board.granted(one)) << "its term is not over";
  board.look_after(LeaseKeeper::kTermNs);
  EXPECT_FALSE(board.granted(one));
  board.run(one);
  board.look_after(kMs);
  EXPECT_TRUE(board.granted(two));
  EXPECT_FALSE(board.granted(one));
}

TEST(LeaseKeeper, EndsATurnOfFifoWithTheOldestOfRunsThatOverlap) {
  Board board("fifo");
  const int training = board.add("training", Priority::background), other = board.add("other", Priority::standard);
  board.run(training);
  const std::int64_t second_ns = board.now_ns + kMs, third_ns = board.now_ns + 3 * kMs;
  board.look_after(2 * kMs);
  board.run(other);
  board.look_after(2 * kMs);
  EXPECT_FALSE(board.granted(other));
  board.slot(training).arrival_ns = second_ns;  // its first run has ended
  board.look_after(kMs);
  EXPECT_FALSE(board.granted(other)) << "the next of the training came before";
  EXPECT_TRUE(board.granted(training));
  board.slot(training).arrival_ns = third_ns;
  board.look_after(kMs);
  EXPECT_TRUE(board.granted(other));
  EXPECT_FALSE(board.granted(training));
  board.run(training);
  board.run(other);
  board.look_after(20 * kMs);
  EXPECT_TRUE(board.granted(other)) << "its run has not ended";
  board.end(other);
  board.look_after(kMs);
  board.look_after(kMs);  // it has not come back at once
  EXPECT_TRUE(board.granted(training));
}

TEST(LeaseKeeper, GivesDeviceTimeByWeightWhateverAProcessClaims) {
  Board board("fair");
  const int small = board.add("small", Priority::standard, 0, 30),
            large = board.add("large", Priority::standard, 0, 70);
  board.slot(small).waited_ns = 1 << 30;  // claims count for nothing
  for (int i = 0; i < 4000; ++i) {
    board.run(small);
    board.run(large);
    board.look_after(kMs);
  }
  const std::vector<LeaseReport> reports = board.keeper.report();
  const double total = static_cast<double>(reports[0].device_ns + reports[1].device_ns);
  EXPECT_NEAR(static_cast<double>(reports[0].device_ns) / total, 0.3, 0.02);
  EXPECT_GT(total, 3900.0 * kMs) << "the device is hardly idle";
}

TEST(LeaseKeeper, TakesTheTurnFromAProcessThatStandsStill) {
  Board board;
  const int stopped = board.add("stopped", Priority::realtime), other = board.add("other", Priority::realtime);
  board.run(stopped);
  board.look_after(kMs);
  board.run(other);
  board.look_after(kMs);
  // The process of this test uses no processor meanwhile in the keeper's time.
  for (int i = 0; i < 60 && !board.granted(other); ++i) board.look_after(10 * kMs);
  EXPECT_TRUE(board.granted(other));
  EXPECT_EQ(board.keeper.board()->active_above(Priority::standard), 0u) << "it keeps nobody from computing";
  EXPECT_TRUE(board.keeper.report()[0].lost);
  board.run(other);
  board.run(stopped);  // it moves again and asks
  board.look_after(kMs);
  EXPECT_FALSE(board.keeper.report()[0].lost);
}

TEST(LeaseKeeper, FreesWhatAJobHeldWhenItGoes) {
  Board board;
  const int gone = board.add("gone", Priority::realtime), left = board.add("left", Priority::background);
  board.keeper.charge(gone, 900 << 20, "weights");
  EXPECT_THROW(board.keeper.charge(left, 200 << 20, "weights"), Error);
  board.run(gone);
  board.run(left);
  board.look_after(kMs);
  board.keeper.remove_job(gone, board.now_ns);
  EXPECT_TRUE(board.granted(left));
  EXPECT_EQ(board.keeper.board()->active_above(Priority::background), 0u);
  EXPECT_NO_THROW(board.keeper.charge(left, 200 << 20, "weights"));
  EXPECT_THROW(board.keeper.release(left, 201 << 20), Error);
}

TEST(LeaseKeeper, RefusesMoreJobsThanThereAreSlots) {
  Board board;
  for (int i = 0; i < lease::kMostJobs; ++i) board.add("job", Priority::standard);
  EXPECT_THROW(board.add("one more", Priority::standard), Error);
}

}  // namespace
}  // namespace tessera::share::lease_keeper_test
