#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "support/expect_error.h"
#include "train/config/config.h"
#include "train/run/trainer_support.h"

namespace tessera::train::config_ranges_test {
namespace {

using namespace test_training;
using test::expect_error_containing;

TEST(ConfigRanges, RefusesNumbersOutOfRange) {
  const auto refuses = [](const char* text, auto change) {
    TrainingConfig config = small();
    change(config);
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { Trainer(two_layers(), config); });
  };
  refuses("optimiser.learning_rate is inf, expected a finite number of at least 0",
          [](TrainingConfig& config) { config.optimiser.learning_rate = HUGE_VAL; });
  refuses("optimiser.learning_rate is nan", [](TrainingConfig& config) { config.optimiser.learning_rate = NAN; });
  refuses("optimiser.momentum is 1, expected a number in [0, 1)",
          [](TrainingConfig& config) { config.optimiser.momentum = 1; });
  refuses("optimiser.weight_decay is inf", [](TrainingConfig& config) { config.optimiser.weight_decay = HUGE_VAL; });
  refuses("train.accumulate is 0", [](TrainingConfig& config) { config.accumulate = 0; });
  refuses("train.log_every is 0", [](TrainingConfig& config) { config.log_every = 0; });
  refuses("loss.label_smoothing is nan", [](TrainingConfig& config) { config.loss.label_smoothing = NAN; });
}

}  // namespace
}  // namespace tessera::train::config_ranges_test
