// Whole models on the CUDA backend over the simulated driver: steps of the GPU and of the host, captured and not.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "driver/control.h"
#include "ir/text.h"
#include "models/models.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::test::cuda_session_test {
namespace {

Model model(const char* text) {
  return Model(std::make_shared<ir::Graph>(ir::parse(text)));
}

// Products, an activation and a softmax on the GPU, and between them a step that it lacks (CumSum).
constexpr const char* kMixed =
    "graph { input %x : f32[8, 64] input %axis : i32[] %w = Relu (%x) %c = CumSum (%w, %axis) %s = Softmax (%c) "
    "%y = Add (%s, %x) output %y }";

NamedValues inputs(std::uint64_t seed) {
  return {{"x", random_tensor(DType::f32, {8, 64}, seed)}, {"axis", Tensor::from<std::int32_t>({}, {0})}};
}

void expect_close(const NamedValues& actual, const NamedValues& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(close_to(actual.at(name).tensor(), value.tensor(), Tolerance::epsilons(DType::f32, 32))) << name;
}

TEST(CudaSession, StepsOfTheHostBetween) {
  Session session(model(kMixed), {.device = "cuda"}), reference(model(kMixed), {.device = "reference"});
  for (std::uint64_t seed = 1; seed < 4; ++seed) expect_close(session.run(inputs(seed)), reference.run(inputs(seed)));
}

TEST(CudaSession, CapturedRunsAreReplayed) {
  Session session(model(kMixed), {.device = "cuda"}), reference(model(kMixed), {.device = "reference"});
  const RunOptions captured{.capture = true};
  for (int run = 0; run < 2; ++run) session.run(inputs(1), captured);
  const backends::DeviceActivity before = backends::find_device("cuda").activity();
  for (std::uint64_t seed = 1; seed < 4; ++seed)
    expect_close(session.run(inputs(seed), captured), reference.run(inputs(seed)));
  const backends::DeviceActivity spent = backends::find_device("cuda").activity() - before;
  EXPECT_GT(spent.replays, 0);
  EXPECT_EQ(spent.instantiations, 0);
}

TEST(CudaSession, PartsThatNobodyWantsHaveNoShape) {
  const NamedValues given{{"x", random_tensor(DType::f32, {2, 9}, 1)}};
  for (const char* const text :
       {"graph { input %x : f32[2, 9] %n = Neg (%x) none, %b = Split (%n) {axis = 1, num_outputs = 2} "
        "%y = Relu (%b) output %y }",
        "graph { input %x : f32[2, 9] constant %s = i64[3] {2, 4, 3} %n = Neg (%x) "
        "none, %b, none = Split (%n, %s) {axis = 1} %y = Relu (%b) output %y }"}) {
    expect_close(Session(model(text), {.device = "cuda"}).run(given),
                 Session(model(text), {.device = "reference"}).run(given));
  }
}

Model net(std::string_view name) {
  return Model(std::make_shared<ir::Graph>(models::build_model(name)));
}

// Random values for all inputs; symbolic sizes are 2, integers are small enough to be indices.
NamedValues random_inputs(const Model& model, std::uint64_t seed) {
  NamedValues values;
  for (const ValueDescription& input : model.inputs()) {
    Shape shape;
    for (const std::int64_t dim : input.dims) shape.push_back(dim > 0 ? dim : 2);
    const bool is_float = input.dtype == DType::f32;
    values[input.name] = random_tensor(input.dtype, shape, seed++, is_float ? -1 : 0, 1);
  }
  return values;
}

// Orders of the streams' work to try; TESSERA_CUDA_SEEDS=20 for the long run.
std::uint64_t seeds() {
  const char* const given = std::getenv("TESSERA_CUDA_SEEDS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 2;
}

TEST(CudaSession, KnownNetsInAnyOrderOfTheirWork) {
  for (const char* const name : {"mlp", "lenet5", "cnn_digits", "transformer_small", "bert_mini", "conv1d"}) {
    SCOPED_TRACE(name);
    const Model known = net(name);
    Session session(known, {.device = "cuda"}), reference(known, {.device = "reference"});
    const NamedValues x = random_inputs(known, 5), expected = reference.run(x);
    for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
      tessera_simulated_cuda_set_seed(seed);
      expect_close(session.run(x, RunOptions{.capture = seed % 2 == 1}), expected);
    }
    tessera_simulated_cuda_set_seed(0);
  }
}

// Every call of the driver that a session makes fails once: an error, and the next run is right.
TEST(CudaSession, AnyCallMayFail) {
  const NamedValues expected = Session(model(kMixed), {.device = "reference"}).run(inputs(1));
  int failures = 0;
  for (const char* const entry :
       {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuLaunchKernel", "cuStreamSynchronize", "cuStreamCreate",
        "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuMemHostAlloc", "cuEventSynchronize"}) {
    for (std::uint64_t call = 1; call < 40; ++call) {
      SCOPED_TRACE(std::string(entry) + " " + std::to_string(call));
      const std::uint64_t before = tessera_simulated_cuda_calls(entry);
      tessera_simulated_cuda_fail(entry, call, 2);
      bool failed = false;
      try {
        Session session(model(kMixed), {.device = "cuda"});
        try {
          expect_close(session.run(inputs(1)), expected);
        } catch (const Error& error) {
          failed = true;
          EXPECT_NE(std::string(error.what()), "");
        }
        tessera_simulated_cuda_recover();
        expect_close(session.run(inputs(1)), expected);
      } catch (const Error& error) {
        failed = true;
      }
      tessera_simulated_cuda_recover();
      failures += failed ? 1 : 0;
      if (HasFatalFailure()) return;
      if (tessera_simulated_cuda_calls(entry) < before + call) break;  // a session makes fewer calls than that
    }
  }
  EXPECT_GT(failures, 10);
}

}  // namespace
}  // namespace tessera::test::cuda_session_test
