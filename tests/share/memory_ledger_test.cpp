#include "share/memory_ledger.h"

#include <gtest/gtest.h>

#include "base/threads/clock.h"
#include "support/expect_error.h"

namespace tessera::share::memory_ledger_test {
namespace {

JobOptions job(const char* name, std::int64_t guarantee, std::int64_t limit) {
  return {.name = name, .guarantee_bytes = guarantee, .limit_bytes = limit};
}

TEST(MemoryLedger, GuaranteesAreNeverRefused) {
  MemoryLedger ledger(1000);
  ledger.add_job(0, job("search", 400, 0));
  ledger.add_job(1, job("training", 0, 0));
  ledger.charge(1, 600, "arena");
  test::expect_error_containing(ErrorKind::over_budget,
                                "job 'training' asked for 1 B for weights, but 0 B are free of the device's 1000 B",
                                [&] { ledger.charge(1, 1, "weights"); });
  ledger.charge(0, 400, "weights");
  test::expect_error_containing(ErrorKind::over_budget, "job 'search' asked for 1 B",
                                [&] { ledger.charge(0, 1, "arena"); });
  ledger.release(1, 600);
  ledger.charge(0, 600, "arena");  // beyond the guarantee it may have what nobody else has
  EXPECT_EQ(ledger.used_bytes(0), 1000);
  EXPECT_EQ(ledger.peak_bytes(), 1000);
  EXPECT_EQ(ledger.peak_bytes(1), 600);
}

TEST(MemoryLedger, LimitsAreKept) {
  MemoryLedger ledger(0);
  ledger.add_job(0, job("small", 0, 100));
  ledger.charge(0, 70, "weights");
  test::expect_error_containing(ErrorKind::over_budget,
                                "job 'small' asked for 31 B for arena, and its limit is 100 B, of which 30 B are free",
                                [&] { ledger.charge(0, 31, "arena"); });
  EXPECT_EQ(ledger.used_bytes(0), 70);
  ledger.charge(0, 30, "arena");
}

TEST(MemoryLedger, JobsThatLeaveLeaveNothing) {
  MemoryLedger ledger(100);
  ledger.add_job(0, job("first", 60, 0));
  test::expect_error_containing(ErrorKind::over_budget, "job 'second' is to be guaranteed 50 B, but only 40 B",
                                [&] { ledger.add_job(1, job("second", 50, 0)); });
  ledger.charge(0, 90, "arena");
  ledger.remove_job(0);
  ledger.release(0, 90);  // late, by a run that ends after its job
  ledger.add_job(1, job("second", 100, 0));
  ledger.charge(1, 100, "arena");
}

// A run of a job for the ledger, with what it is told.
struct Holder {
  Holder(MemoryLedger& given, int job, bool may_spill) : ledger(given), signal(Clock::steady().make_signal()) {
    memory.job = job;
    memory.may_spill = may_spill;
    memory.signal = signal.get();
    ledger.add(memory);
  }
  ~Holder() { ledger.remove(memory, 0); }
  bool take(std::int64_t bytes, std::int64_t now_ns = 0) { return ledger.try_take(memory, bytes, false, now_ns); }
  void give_back(std::int64_t bytes, std::int64_t now_ns = 0) { ledger.give_back(memory, bytes, now_ns); }

  MemoryLedger& ledger;
  std::unique_ptr<Clock::Signal> signal;
  TemporaryMemory memory;
};

TEST(MemoryLedger, BackgroundRunsBorrowWhatIsGuaranteedToOthersUntilTheyClaimIt) {
  MemoryLedger ledger(1000);
  ledger.add_job(0, job("search", 400, 0));
  ledger.add_job(1, job("training", 0, 0));
  ledger.charge(0, 100, "weights");
  Holder training(ledger, 1, true), search(ledger, 0, false);
  ASSERT_TRUE(training.take(900));
  EXPECT_EQ(training.memory.wanted, 0);
  EXPECT_FALSE(search.take(300));
  EXPECT_EQ(training.memory.wanted, 300);
  training.give_back(200);
  EXPECT_FALSE(search.take(300));
  EXPECT_EQ(training.memory.wanted, 100);
  training.give_back(700);
  EXPECT_EQ(training.memory.wanted, 0);
  EXPECT_TRUE(search.take(300));
  EXPECT_FALSE(training.take(900));
  EXPECT_EQ(search.memory.wanted, 0) << "a run that is no background's is never asked";
  search.give_back(300);
  EXPECT_TRUE(training.take(900));
  // What cannot wait is granted beyond what there is, for a moment.
  ledger.charge(0, 50, "results");
  EXPECT_EQ(training.memory.wanted, 50);
  EXPECT_EQ(ledger.used_bytes(0) + ledger.used_bytes(1), 1050);
}

TEST(MemoryLedger, AJobThatSpillsKeepsWhatItIsGuaranteedItself) {
  MemoryLedger ledger(1000);
  ledger.add_job(0, job("search", 600, 0));
  ledger.add_job(1, job("training", 400, 0));
  Holder first(ledger, 1, true), second(ledger, 1, true), search(ledger, 0, false);
  ASSERT_TRUE(first.take(500));
  ASSERT_TRUE(second.take(300));
  EXPECT_FALSE(search.take(600));
  EXPECT_EQ(second.memory.wanted, 300) << "the latest is asked first";
  EXPECT_EQ(first.memory.wanted, 100) << "and 400 of them stay";
  second.give_back(300);
  first.give_back(500);
  EXPECT_TRUE(search.take(600));
}

TEST(MemoryLedger, ARunWaitsForOthersToEndButNotForWhatStays) {
  MemoryLedger ledger(1000);
  ledger.add_job(0, job("first", 0, 0));
  ledger.add_job(1, job("second", 0, 0));
  ledger.charge(1, 300, "weights");
  Holder first(ledger, 0, false), second(ledger, 1, false), background(ledger, 0, true);
  ASSERT_TRUE(first.take(500));
  EXPECT_FALSE(second.take(600));
  EXPECT_FALSE(background.take(100)) << "it would lengthen the other's wait";
  first.give_back(500);
  EXPECT_TRUE(second.take(600));
  EXPECT_TRUE(background.take(100));
  test::expect_error_containing(ErrorKind::over_budget, "job 'first' asked for 701 B for a run",
                                [&] { first.take(701); });
  EXPECT_FALSE(background.take(701)) << "what others hold may be of their runs";
  test::expect_error_containing(ErrorKind::over_budget, "job 'first' asked for 1001 B for a run",
                                [&] { background.take(1001); });
  // In the middle of a run it cannot wait.
  test::expect_error_containing(ErrorKind::over_budget, "job 'first' asked for 200 B for a run",
                                [&] { ledger.try_take(first.memory, 200, true, 0); });
}

TEST(MemoryLedger, MemoryThatWasSpilledComesBackOnlyWhenItIsLeftAloneForAsLongAsTheSpillTook) {
  MemoryLedger ledger(1000);
  ledger.add_job(0, job("search", 400, 0));
  ledger.add_job(1, job("training", 0, 0));
  Holder training(ledger, 1, true), search(ledger, 0, false);
  ASSERT_TRUE(training.take(900));
  EXPECT_FALSE(search.take(400));
  training.give_back(900);
  training.memory.quiet_ns = 50;
  EXPECT_FALSE(training.take(900, 100));
  EXPECT_TRUE(search.take(400, 110));
  search.give_back(400, 120);
  EXPECT_FALSE(training.take(900, 160));
  EXPECT_TRUE(search.take(400, 165));  // the next request of the burst finds its memory
  search.give_back(400, 170);
  EXPECT_FALSE(training.take(900, 219));
  EXPECT_TRUE(training.take(900, 220));
}

TEST(MemoryLedger, WhoNoLongerWaitsWantsNothing) {
  MemoryLedger ledger(1000);
  ledger.add_job(0, job("search", 400, 0));
  ledger.add_job(1, job("training", 0, 0));
  Holder training(ledger, 1, true);
  ASSERT_TRUE(training.take(900));
  {
    Holder search(ledger, 0, false);
    EXPECT_FALSE(search.take(300));
    EXPECT_EQ(training.memory.wanted, 200);
  }
  EXPECT_EQ(training.memory.wanted, 0);
}

}  // namespace
}  // namespace tessera::share::memory_ledger_test
