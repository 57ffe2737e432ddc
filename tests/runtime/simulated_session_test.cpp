// Sessions on the simulated device: what only a device with memory of its own can get wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "backends/simulated/simulated_device.h"
#include "ir/text.h"
#include "runtime/memory/memory.h"
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

std::int64_t simulated_launch_ns(const backends::simulated::SimulatedDevice& device) {
  return std::llround(device.options().profile.overhead_seconds * 1e9);
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
  expect_error_containing(ErrorKind::over_budget, "': 0 B of the limit of 4.0 KiB are in use",
                          [&] { small.run(inputs()); });
}

TEST(SimulatedSession, CapturedRunsAreOneLaunch) {
  const std::string name = device("");
  const auto& simulated = dynamic_cast<const backends::simulated::SimulatedDevice&>(backends::find_device(name));
  Session session(model(kLayers), {.device = name});
  const RunOptions options{.capture = true};
  const Tensor expected = session.run(inputs(), options).at("y").tensor();
  std::int64_t before = simulated.activity().launches;
  EXPECT_EQ(before, 2);
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(identical(session.run(inputs(), options).at("y").tensor(), expected));
    EXPECT_EQ(simulated.activity().launches, before + 1);
    before = simulated.activity().launches;
  }
}

TEST(SimulatedSession, WithoutComputingResultsAreZeros) {
  Session session(model(kLayers), {.device = device(",compute=none")});
  const NamedValues outputs = session.run(inputs());
  for (const float element : outputs.at("y").tensor().values<float>()) ASSERT_EQ(element, 0);
}

// Four products with weights of their own, small to large, between which nothing can be fused.
Model products(std::int64_t width, const ir::Dim& rows = 16) {
  ir::Graph graph;
  ir::ValueId value = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{rows, width}));
  for (int layer = 0; layer < 4; ++layer) {
    const ir::ValueId weights =
        graph.add_constant(random_tensor(DType::f32, {width, width}, static_cast<std::uint64_t>(layer + 1)));
    const ir::ValueId next = graph.add_value("y" + std::to_string(layer), graph.value(value).type);
    graph.add_node({"MatMul", "layer" + std::to_string(layer), {value, weights}, {next}, {}, 0});
    value = next;
  }
  graph.add_output(value);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

// How long the first answer takes in virtual time is what the pipeline's formula says: with T the end of the transfer
// of a step's weights and E that of its computing, E(i) = max(T(i), E(i-1)) + the step's time.
TEST(SimulatedSession, FirstLayersComputeWhileWeightsAreUploaded) {
  const std::int64_t width = 128;
  const NamedValues x = {{"x", random_tensor(DType::f32, {16, width}, 9)}};
  const std::string name = device("");
  const auto& simulated = dynamic_cast<const backends::simulated::SimulatedDevice&>(backends::find_device(name));
  Clock& clock = simulated.timeline().clock();
  Session session(products(width), {.device = name});
  const std::int64_t begin = clock.now_ns();
  const Tensor first = session.run(x).begin()->second.tensor();
  const std::int64_t measured = clock.now_ns() - begin;
  EXPECT_TRUE(identical(first, Session(products(width), {.device = "reference"}).run(x).begin()->second.tensor()));

  std::vector<StepTiming> timings;
  const std::int64_t warm_begin = clock.now_ns();
  EXPECT_TRUE(identical(session.run(x, {.timings = &timings}).begin()->second.tensor(), first));
  const std::int64_t warm = clock.now_ns() - warm_begin;
  ASSERT_EQ(timings.size(), 6u);  // the input up, four products, the output down
  const auto weights_ns = static_cast<std::int64_t>(std::llround(simulated.copy_seconds(width * width * 4) * 1e9));
  const auto first_answer = [&](bool input_first) {
    // Both copies start at once; the link takes one after the other, and the seed says which goes first.
    const std::int64_t launch = simulated_launch_ns(simulated);
    const std::int64_t input_alone = timings[0].duration_ns;
    std::int64_t transferred = input_first ? input_alone + weights_ns - launch : weights_ns;
    std::int64_t computed = input_first ? input_alone : weights_ns + input_alone - launch;
    const std::int64_t link_free = computed;
    for (std::size_t step = 1; step <= 4; ++step) {
      computed = std::max(transferred, computed) + timings[step].duration_ns;
      const std::int64_t next_start = transferred + launch;
      transferred = (step == 1 ? std::max(next_start, link_free) : next_start) + weights_ns - launch;
    }
    return computed + timings[5].duration_ns;
  };
  EXPECT_THAT(measured, testing::AnyOf(first_answer(true), first_answer(false)));
  EXPECT_LT(measured, warm + 4 * weights_ns) << "not faster than uploading everything first";
  EXPECT_GE(measured, 4 * weights_ns + timings[4].duration_ns + timings[5].duration_ns);
}

TEST(SimulatedSession, WeightsThatDoNotFitAreAnError) {
  Session session(products(64), {.device = device(",memory=40KiB")});
  expect_error_containing(ErrorKind::over_budget, "for weights do not fit in the memory of device 'simulated:t4",
                          [&] { session.run({{"x", random_tensor(DType::f32, {16, 64}, 9)}}); });
}

// Another shape is another plan, with the same weights.
TEST(SimulatedSession, PlansShareUploads) {
  const std::string name = device("");
  const auto& simulated = dynamic_cast<const backends::simulated::SimulatedDevice&>(backends::find_device(name));
  Session session(products(64, ir::Dim::symbol("rows")), {.device = name});
  std::int64_t in_use = 0;
  for (const std::int64_t rows : {1, 2, 3}) {
    const Tensor x = random_tensor(DType::f32, {rows, 64}, 1);
    session.run({{"x", x}});
    session.trim();
    if (in_use == 0) in_use = simulated.memory().in_use_bytes();
    EXPECT_EQ(simulated.memory().in_use_bytes(), in_use);
  }
  EXPECT_GE(in_use, 4 * 64 * 64 * 4);
}

// Kernels that pack their weights get them in the device's memory, where nothing else of these constants is.
TEST(SimulatedSession, PackedConstantsAreNotKeptBesideRawOnes) {
  const std::string name = device(",compute=cpu");
  backends::DeviceMemory& memory = backends::find_device(name).memory();
  const NamedValues x = {{"x", random_tensor(DType::f32, {16, 256}, 9)}};
  constexpr std::int64_t raw = 4 * 256 * 256 * 4;
  {
    Session session(products(256), {.device = name});
    const Tensor result = session.run(x).begin()->second.tensor();
    EXPECT_TRUE(identical(result, Session(products(256), {.device = "cpu"}).run(x).begin()->second.tensor()));
    const MemoryUse use = session.memory();
    EXPECT_EQ(use.device.weights_bytes, 0);
    EXPECT_GE(use.device.packed_weights_bytes, raw);
    EXPECT_EQ(use.packed_weights_bytes, 0) << "nothing packed is kept on the host";
    EXPECT_LT(memory.in_use_bytes(), 2 * raw);
  }
  runtime::trim_process_memory();
  EXPECT_EQ(memory.in_use_bytes(), 0);
}

TEST(SimulatedSession, MemoryOfTheDeviceIsChargedByPurpose) {
  const std::string name = device("");
  const backends::DeviceMemory& memory = backends::find_device(name).memory();
  Session session(products(128), {.device = name});
  const NamedValues x = {{"x", random_tensor(DType::f32, {16, 128}, 9)}};
  session.run(x);
  session.run(x);
  const MemoryUse use = session.memory();
  EXPECT_EQ(use.device.weights_bytes, 4 * 128 * 128 * 4);
  EXPECT_EQ(use.device.packed_weights_bytes, 0);
  EXPECT_EQ(use.device.arena_bytes, 0) << "no run is in progress";
  EXPECT_EQ(use.device.limit_bytes, memory.capacity_bytes());
  EXPECT_EQ(use.arena_bytes, 0);
  EXPECT_EQ(use.staging_bytes, 0);
  EXPECT_LE(memory.pinned_bytes(), 1 << 20) << "what copies of inputs and outputs took is kept, and no more";
}

TEST(SimulatedSession, RefusesWhatItsLimitOnTheDeviceDoesNotAllow) {
  const std::string name = device("");
  Session session(products(128), {.device = name, .device_memory_limit_bytes = 200 << 10});
  expect_error(ErrorKind::over_budget,
               "64.0 KiB for weights do not fit in the memory of device '" + name +
                   "': 192.0 KiB of the limit of 200.0 KiB are in use",
               [&] { session.run({{"x", random_tensor(DType::f32, {16, 128}, 9)}}); });
}

// Inputs and outputs of the caller's are no pinned memory, and yet their copies do not hold the host up one by one.
TEST(SimulatedSession, CopiesOfInputsAreStaged) {
  const std::string name = device(",compute=none");
  const auto& simulated = dynamic_cast<const backends::simulated::SimulatedDevice&>(backends::find_device(name));
  Clock& clock = simulated.timeline().clock();
  Session session(model("graph { input %a : f32[65536] input %b : f32[65536] %y = Add (%a, %b) output %y }"),
                  {.device = name});
  const NamedValues inputs = {{"a", random_tensor(DType::f32, {65536}, 1)},
                              {"b", random_tensor(DType::f32, {65536}, 2)}};
  session.run(inputs);
  std::vector<StepTiming> timings;
  session.run(inputs, {.timings = &timings});
  ASSERT_EQ(timings.size(), 4u);
  EXPECT_EQ(timings[1].start_ns, timings[0].start_ns + timings[0].duration_ns);
  const std::int64_t begin = clock.now_ns();
  session.run(inputs);
  std::int64_t sum = 0;
  for (const StepTiming& timing : timings) sum += timing.duration_ns;
  EXPECT_EQ(clock.now_ns() - begin, sum);
}

}  // namespace
}  // namespace tessera::test::simulated_session_test
