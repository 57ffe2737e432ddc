// Sessions on the simulated device: what only a device with memory of its own can get wrong.
#include <gtest/gtest.h>

#include "backends/backend_table.h"
#include "backends/simulated/simulated_device.h"
#include "ir/text.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::test::simulated_session_test {
namespace {

Model model(const char* text) {
  return Model(std::make_shared<ir::Graph>(ir::parse(text)));
}

// The device's sessions share its counts and memory, so each test names one of its own.
std::string device(const std::string& options) {
  static int number = 2000;
  return "simulated:t4,number=" + std::to_string(number++) + options;
}

constexpr const char* kLayers =
    "graph { input %x : f32[8, 64] input %x2 : f32[64, 64] %a = MatMul (%x, %x2) %y = Relu (%a) output %y }";

NamedValues inputs() {
  return {{"x", random_tensor(DType::f32, {8, 64}, 1)}, {"x2", random_tensor(DType::f32, {64, 64}, 2)}};
}

TEST(SimulatedSession, TimingsAreThoseOfTheDevice) {
  const Model layers = model(kLayers);
  std::vector<std::int64_t> durations[2];
  for (std::vector<std::int64_t>& run : durations) {
    Session session(layers, {.device = device("")});
    std::vector<StepTiming> timings;
    session.run(inputs(), {.timings = &timings});
    for (const StepTiming& timing : timings) run.push_back(timing.duration_ns);
  }
  // Copies up, two kernels and a copy down at the least, each with a launch; and the same however busy this machine is.
  EXPECT_GE(durations[0].size(), 4u);
  EXPECT_EQ(durations[0], durations[1]);
}

TEST(SimulatedSession, ReportsWhereWorkFailed) {
  const Model gather = model("graph { input %x : f32[4] input %i : i64[1] %y = Gather (%x, %i) output %y }");
  Session session(gather, {.device = device("")});
  const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
  expect_error_containing(ErrorKind::failed, "Gather",
                          [&] { session.run({{"x", x}, {"i", Tensor::from<std::int64_t>({1}, {9})}}); });
  const NamedValues right = session.run({{"x", x}, {"i", Tensor::from<std::int64_t>({1}, {2})}});
  EXPECT_EQ(right.at("y").tensor().data<float>()[0], 3);
}

TEST(SimulatedSession, FailsCleanlyOnDemand) {
  const Model layers = model(kLayers);
  Session launches(layers, {.device = device(",fault=launch:1")});
  expect_error_containing(ErrorKind::failed,
                          "launch 1 on device 'simulated:t4,number=", [&] { launches.run(inputs()); });
  EXPECT_TRUE(identical(launches.run(inputs()).at("y").tensor(),
                        Session(layers, {.device = "reference"}).run(inputs()).at("y").tensor()));
  Session small(layers, {.device = device(",memory=4KiB")});
  expect_error_containing(ErrorKind::over_budget, "do not fit: 0 B of the limit of 4.0 KiB are in use",
                          [&] { small.run(inputs()); });
}

TEST(SimulatedSession, CapturedRunsAreOneLaunch) {
  const std::string name = device("");
  const auto& simulated = dynamic_cast<const backends::simulated::SimulatedDevice&>(backends::find_device(name));
  Session session(model(kLayers), {.device = name});
  const RunOptions options{.capture = true};
  const Tensor expected = session.run(inputs(), options).at("y").tensor();
  std::int64_t before = simulated.launches();
  EXPECT_EQ(before, 2);
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(identical(session.run(inputs(), options).at("y").tensor(), expected));
    EXPECT_EQ(simulated.launches(), before + 1);
    before = simulated.launches();
  }
}

TEST(SimulatedSession, WithoutComputingResultsAreZeros) {
  Session session(model(kLayers), {.device = device(",compute=none")});
  const NamedValues outputs = session.run(inputs());
  for (const float element : outputs.at("y").tensor().values<float>()) ASSERT_EQ(element, 0);
}

}  // namespace
}  // namespace tessera::test::simulated_session_test
