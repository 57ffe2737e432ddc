#include "train/run/calibration_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/measure/step_times.h"
#include "tessera/session.h"

namespace tessera::train::calibration_steps_test {
namespace {

TEST(CalibrationSteps, HaveSizesThatAreKnown) {
  for (const auto& make : calibration_steps()) {
    const Model step = make();
    for (const ValueDescription& input : step.inputs())
      EXPECT_TRUE(input.rank_known && std::ranges::count(input.dims, -1) == 0) << input.name << " " << input.type;
  }
}

// What is timed is a whole step: none leaves out its update because a gradient is not finite.
TEST(CalibrationSteps, ComputeFiniteNumbersForAllRunsThatAreTimed) {
  const auto makers = calibration_steps();
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}, std::size_t{13}}) {
    const Model step = makers[i]();
    Session session(step);
    const NamedValues inputs = report::inputs_to_time(step, 1);
    for (int run = 0; run < 15; ++run) {
      const NamedValues results = session.run(inputs);
      ASSERT_TRUE(std::isfinite(results.at("loss").tensor().data<float>()[0])) << i << " run " << run;
      ASSERT_FALSE(results.at("skipped").tensor().data<bool>()[0]) << i << " run " << run;
    }
  }
}

}  // namespace
}  // namespace tessera::train::calibration_steps_test
