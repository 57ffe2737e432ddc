#include "train/run/data_faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "support/expect_error.h"
#include "train/run/trainer_support.h"

namespace tessera::train::data_faults_test {
namespace {

using namespace test_training;
using test::expect_error_containing;

TEST(DataFaults, NamesTheSampleOfALabelThatIsNoClass) {
  TrainingConfig config = small();
  config.data.train_arrays["y"].mutable_data<std::int64_t>()[37] = 3;
  expect_error_containing(ErrorKind::invalid_argument, "the label 3 in the training data sample 37 is no class",
                          [&] { Trainer(two_layers(), config).run(); });
  config = small();
  config.data.test_arrays["y"].mutable_data<std::int64_t>()[41] = -7;
  expect_error_containing(ErrorKind::invalid_argument, "the label -7 in the test data sample 41 is no class",
                          [&] { Trainer(two_layers(), config).run(); });
  config = small();
  Tensor halves(DType::f64, {kSamples});
  std::ranges::fill(halves.mutable_values<double>(), 1.0);
  halves.mutable_data<double>()[12] = 1.5;
  config.data.train_arrays["y"] = halves;
  expect_error_containing(ErrorKind::invalid_argument, "the field 'y' is f64 and holds 1.5",
                          [&] { Trainer(two_layers(), config).run(); });
  expect_error_containing(ErrorKind::invalid_argument, "the training data sample 12",
                          [&] { Trainer(two_layers(), config).run(); });
}

}  // namespace
}  // namespace tessera::train::data_faults_test
