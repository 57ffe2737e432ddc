#include "train/run/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace tessera::train::schedule_test {
namespace {

TEST(Schedule, WarmsUpInALine) {
  const ScheduleOptions options{.warmup_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate_at(0.8, options, 0, 100), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(0.8, options, 3, 100), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate_at(0.8, options, 50, 100), 0.8);
}

TEST(Schedule, DecaysBehindTheWarmUp) {
  const ScheduleOptions cosine{.name = "cosine", .warmup_steps = 10, .final_share = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate_at(1, cosine, 10, 110), 1);
  EXPECT_NEAR(learning_rate_at(1, cosine, 60, 110), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate_at(1, cosine, 110, 110), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate_at(1, cosine, 500, 110), 0.1, 1e-12);
  const ScheduleOptions polynomial{.name = "polynomial", .power = 2};
  EXPECT_DOUBLE_EQ(learning_rate_at(2, polynomial, 50, 100), 0.5);
  const ScheduleOptions step{.name = "step", .every = 30, .factor = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate_at(1, step, 29, 100), 1);
  EXPECT_NEAR(learning_rate_at(1, step, 30, 100), 0.1, 1e-15);
  EXPECT_NEAR(learning_rate_at(1, step, 95, 100), 0.001, 1e-15);
}

TEST(Schedule, RefusesOptionsOutOfRange) {
  const auto refuses = [](const ScheduleOptions& options, const std::string& text) {
    test::expect_error_containing(ErrorKind::invalid_argument, text, [&] { check_schedule(options); });
  };
  refuses({.name = "linear"},
          "unknown schedule 'linear'; there are constant, step, cosine, polynomial, one_cycle, plateau");
  refuses({.name = "step"}, "needs every");
  refuses({.warmup_steps = -1}, "warmup_steps is -1");
  refuses({.name = "cosine", .final_share = 2}, "final_share is 2");
  EXPECT_NO_THROW(check_schedule({.name = "cosine", .warmup_steps = 5}));
}

// The rates of torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10).
TEST(Schedule, OneCycleRisesAndFalls) {
  ScheduleOptions options;
  options.name = "one_cycle";
  options.final_share = 4e-6;
  EXPECT_NEAR(learning_rate_at(1, options, 0, 10), 0.04, 1e-12);
  EXPECT_NEAR(learning_rate_at(1, options, 1, 10), 0.52, 1e-12);
  EXPECT_NEAR(learning_rate_at(1, options, 2, 10), 1, 1e-12);
  EXPECT_NEAR(learning_rate_at(1, options, 9, 10), 4e-6, 1e-12);
  options.warmup_steps = 3;
  test::expect_error_containing(ErrorKind::invalid_argument, "one_cycle: warmup_share is 0.3",
                                [&] { check_schedule(options); });
}

TEST(Schedule, PlateauFallsWhenNothingGetsBetter) {
  ScheduleOptions options{.name = "plateau", .factor = 0.5, .patience = 1};
  PlateauState state;
  std::vector<double> shares;
  for (const bool best : {true, false, false, false, false, true, false}) {
    state.add(best, options);
    shares.push_back(state.share);
  }
  EXPECT_EQ(shares, (std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25, 0.25}));
}

}  // namespace
}  // namespace tessera::train::schedule_test
