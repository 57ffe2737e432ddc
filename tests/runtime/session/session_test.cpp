// Sessions over graphs made in memory: checks of inputs, memory, concurrency, cancellation.
#include "tessera/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "ir/graph.h"
#include "ops/core/builder.h"
#include "runtime/memory/idle_trimmer.h"
#include "runtime/memory/memory.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::session_test {
namespace {

using test::close_to;

// y = relu(x + x) over f32[batch, 4].
Model doubling_model() {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), 4}));
  const ir::ValueId y = builder.add("Relu", {builder.add("Add", {x, x})});
  graph->value(y).name = "y";
  graph->add_output(y);
  return Model(graph);
}

void expect_error(const std::function<void()>& body, ErrorKind kind, const std::string& message) {
  try {
    body();
    FAIL() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_EQ(std::string(error.what()), message);
  }
}

TEST(Session, RunsForEveryBatch) {
  Session session(doubling_model());
  for (std::int64_t batch : {1, 3, 1, 7}) {
    Tensor x(DType::f32, {batch, 4});
    for (std::int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i) - 2.0f;
    const Tensor y = session.run({{"x", x}}).at("y").tensor();
    ASSERT_EQ(y.shape(), x.shape());
    for (std::int64_t i = 0; i < x.elements(); ++i)
      EXPECT_EQ(y.data<float>()[i], std::max(0.0f, 2 * (static_cast<float>(i) - 2.0f)));
  }
}

// The planner's list of values grows, and moves, while kernels pack their weights (the address sanitizer sees a stale
// pointer).
TEST(Session, PacksTheWeightsOfManyLayers) {
  constexpr std::int64_t width = 64, layers = 128;
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1, width}));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    // Moves every element to its neighbour's place, the last to the first.
    Tensor rotation(DType::f32, {width, width});
    std::ranges::fill(rotation.mutable_values<float>(), 0.0f);
    for (std::int64_t i = 0; i < width; ++i) rotation.mutable_data<float>()[i * width + (i + 1) % width] = 1;
    x = builder.add("MatMul", {x, builder.constant(std::move(rotation))});
  }
  graph->value(x).name = "y";
  graph->add_output(x);
  Tensor numbers(DType::f32, {1, width});
  std::iota(numbers.mutable_data<float>(), numbers.mutable_data<float>() + width, 0.0f);
  Session session{Model(graph)};
  EXPECT_TRUE(identical(session.run({{"x", numbers}}).at("y").tensor(), numbers));  // layers is a multiple of width
}

// The mean of the places where x is not 0, as attention of queries and keys of 0; how many there are is data.
TEST(Session, DecomposesAnOperatorWhoseShapesDependOnData) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{5}));
  const ir::ValueId places =
      builder.add("Cast", {builder.add("NonZero", {x})}, {{"to", static_cast<std::int64_t>(DType::f32)}});
  const ir::ValueId values = builder.add("Unsqueeze", {places, builder.integers({2})});
  const ir::ValueId keys = builder.add("Mul", {values, builder.scalar(0)}),
                    query = builder.constant(Tensor::from<float>({1, 1, 1}, {0}));
  const ir::ValueId y =
      builder.add("com.microsoft::MultiHeadAttention", {query, keys, values}, {{"num_heads", std::int64_t{1}}});
  graph->value(y).name = "y";
  graph->add_output(y);
  Session session{Model(graph)};
  for (const auto& [given, mean] : {std::pair{Tensor::from<float>({5}, {0, 1, 0, 0, 1}), 2.5f},
                                    {Tensor::from<float>({5}, {1, 1, 0, 0, 1}), 5.0f / 3}}) {
    const Tensor result = session.run({{"x", given}}).at("y").tensor();
    EXPECT_TRUE(close_to(result, Tensor::from<float>({1, 1, 1}, {mean}), test::Tolerance::epsilons(DType::f32, 4)));
  }
}

TEST(Session, ForgetsPlansBeyondItsLimit) {
  Session session(doubling_model(), {.max_cached_plans = 2});
  std::int64_t of_one = 0, of_five = 0;
  for (std::int64_t batch = 1; batch <= 40; ++batch) {
    session.run({{"x", Tensor(DType::f32, {batch * 1000, 4})}});
    if (batch == 1) of_one = session.memory().plans_bytes;
    if (batch == 5) of_five = session.memory().plans_bytes;
  }
  session.run({{"x", Tensor(DType::f32, {1000, 4})}});
  EXPECT_GT(of_one, 0);
  EXPECT_EQ(session.memory().plans_bytes, of_five);
  EXPECT_LE(of_five, 4 * of_one);  // two plans, and up to two that plans for other sizes are made from
}

TEST(Session, TellsWhatIsWrongWithInputs) {
  Session session(doubling_model());
  const Tensor good(DType::f32, {1, 4});
  expect_error([&] { session.run({}); }, ErrorKind::invalid_argument,
               "input 'x' is missing; the model's inputs are 'x'");
  expect_error([&] { session.run({{"x", good}, {"z", good}}); }, ErrorKind::invalid_argument,
               "the model has no input 'z'; its inputs are 'x'");
  expect_error([&] { session.run({{"x", Tensor(DType::i64, {1, 4})}}); }, ErrorKind::invalid_argument,
               "input 'x' has element type i64, expected f32 (the input is declared f32[batch, 4])");
  expect_error([&] { session.run({{"x", Tensor(DType::f32, {4})}}); }, ErrorKind::invalid_argument,
               "input 'x' has rank 1 (shape [4]), expected rank 2 (declared f32[batch, 4])");
  expect_error([&] { session.run({{"x", Tensor(DType::f32, {1, 5})}}); }, ErrorKind::invalid_argument,
               "input 'x' has shape [1, 5]: dimension 1 is 5, expected 4 (declared f32[batch, 4])");
}

TEST(Session, RefusesUnknownDevicesAndPasses) {
  expect_error([] { Session session(doubling_model(), {.device = "tpu"}); }, ErrorKind::invalid_argument,
               "there is no device 'tpu'; devices: cpu, cuda:N, reference, null, simulated:PROFILE");
  expect_error([] { Session session(doubling_model(), {.without_passes = {"fold"}}); }, ErrorKind::invalid_argument,
               "there is no pass 'fold'");
}

TEST(Session, KeepsWithinItsMemoryLimit) {
  Session session(doubling_model(), {.memory_limit_bytes = 1 << 20});
  session.run({{"x", Tensor(DType::f32, {1, 4})}});
  try {
    session.run({{"x", Tensor(DType::f32, {1 << 20, 4})}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::over_budget) << error.what();
  }
  // The failed run left nothing behind that stops the next one.
  session.run({{"x", Tensor(DType::f32, {1, 4})}});
}

TEST(Session, ChargesWhatIsInUse) {
  Session session(doubling_model());
  {
    const NamedValues kept = session.run({{"x", Tensor(DType::f32, {1 << 16, 4})}});
    EXPECT_GE(session.memory().results_bytes, (1 << 16) * 16);
  }
  EXPECT_EQ(session.memory().results_bytes, 0);
  EXPECT_EQ(session.memory().arena_bytes, 0);
}

// Real numbers of these weights would be eight times their bytes, and the packed ones of a product as much again.
TEST(Session, MultipliesByWeightsInBlocksAsTheyLie) {
  constexpr std::int64_t size = 1024, blocks = size / 32;
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x =
      graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("rows"), size}));
  const Tensor numbers = test::random_tensor(DType::u8, {size, blocks, 16}, 1, 0, 255),
               scales = test::random_tensor(DType::f32, {size, blocks}, 2);
  graph->add_output(builder.add("com.microsoft::MatMulNBits", {x, builder.constant(numbers), builder.constant(scales)},
                                {{"K", size}, {"N", size}, {"block_size", std::int64_t{32}}}));
  Session session{Model(graph)};
  for (const std::int64_t rows : {1, 3, 40}) session.run({{"x", test::random_tensor(DType::f32, {rows, size}, 3)}});
  EXPECT_EQ(session.memory().weights_bytes, numbers.bytes() + scales.bytes());
  EXPECT_EQ(session.memory().packed_weights_bytes, 0);
}

TEST(Session, TrimGivesMemoryBack) {
  Session session(doubling_model());
  session.run({{"x", Tensor(DType::f32, {1 << 20, 4})}});
  EXPECT_GT(runtime::result_blocks().idle_bytes(), 0);
  session.trim();
  EXPECT_EQ(runtime::result_blocks().idle_bytes() + runtime::arena_blocks().idle_bytes(), 0);
}

TEST(Session, IdleMemoryGoesBackByItself) {
  runtime::IdleTrimmer::process().set_period(std::chrono::milliseconds(20));
  Session session(doubling_model());
  session.run({{"x", Tensor(DType::f32, {1 << 20, 4})}});
  const auto idle = [] { return runtime::result_blocks().idle_bytes() + runtime::arena_blocks().idle_bytes(); };
  for (int i = 0; i < 500 && idle() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(idle(), 0);
  runtime::IdleTrimmer::process().set_period(std::chrono::seconds(10));
}

TEST(Session, OutputsOutliveTheSession) {
  Tensor y;
  {
    Session session(doubling_model());
    y = session.run({{"x", Tensor::from<float>({1, 4}, {1.0f, 2.0f, 3.0f, 4.0f})}}).at("y").tensor();
  }
  EXPECT_TRUE(close_to(y, Tensor::from<float>({1, 4}, {2.0f, 4.0f, 6.0f, 8.0f})));
}

TEST(Session, ConcurrentRunsDoNotMix) {
  Session session(doubling_model());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Tensor x(DType::f32, {1 + (t + i) % 3, 4});
        for (float& value : x.mutable_values<float>()) value = static_cast<float>(t * 100 + i);
        const Tensor y = session.run({{"x", x}}).at("y").tensor();
        for (float value : y.values<float>()) wrong += value != 2.0f * static_cast<float>(t * 100 + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Session, CancelledRunStopsWithAnError) {
  Session session(doubling_model(), {.without_passes = {"fuse_element_wise"}});
  session.run({{"x", Tensor(DType::f32, {1, 4})}});  // else it would stop while it plans
  Cancellation cancellation;
  cancellation.cancel();
  RunOptions options;
  options.cancellation = &cancellation;
  expect_error([&] { session.run({{"x", Tensor(DType::f32, {1, 4})}}, options); }, ErrorKind::cancelled,
               "the run was cancelled (in node 'Add_0' (Add))");
}

TEST(Session, RecordsTimings) {
  Session session(doubling_model(), {.without_passes = {"fuse_element_wise"}});
  std::vector<StepTiming> timings;
  RunOptions options;
  options.timings = &timings;
  session.run({{"x", Tensor(DType::f32, {2, 4})}}, options);
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].op, "Add");
  EXPECT_EQ(timings[1].op, "Relu");
  EXPECT_EQ(timings[1].shapes, "f32[2, 4] -> f32[2, 4]");
  EXPECT_GE(timings[1].start_ns, timings[0].start_ns + timings[0].duration_ns);
}

}  // namespace
}  // namespace tessera::session_test
