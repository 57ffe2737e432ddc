#include "share/memory_ledger.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tessera::share::memory_ledger_test
