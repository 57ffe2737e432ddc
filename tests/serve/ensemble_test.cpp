#include "serve/core/models/ensemble.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <list>

#include "serve/core/models/repository.h"
#include "support/temporary_folder.h"
#include "tessera/graph.h"

namespace tessera::serve::ensemble_test {
namespace {

// y = x · factor, x of [batch, 2]
void save_scale(const std::filesystem::path& folder, float factor, const std::string& config) {
  std::filesystem::create_directories(folder / "1");
  NetBuilder net("scale");
  const NetValue x = net.input("x", DType::f32, {"batch", std::int64_t{2}});
  net.output("y", net.add("Mul", {x, net.constant(Tensor::scalar(factor))}));
  net.build().save(folder / "1" / "model.onnx");
  std::ofstream(folder / "config.pbtxt") << config;
}

void write_ensemble(const std::filesystem::path& folder, const std::string& name, int rows) {
  std::filesystem::create_directories(folder / name);
  std::ofstream(folder / name / "config.pbtxt") << fmt::format(R"(
platform: "ensemble"
max_batch_size: {}
input {{ name: "in" data_type: TYPE_FP32 dims: [2] }}
output {{ name: "out" data_type: TYPE_FP32 dims: [2] }}
ensemble_scheduling {{
  step {{ model_name: "second" input_map {{ key: "x" value: "between" }} output_map {{ key: "y" value: "out" }} }}
  step {{ model_name: "first" input_map {{ key: "x" value: "in" }} output_map {{ key: "y" value: "between" }} }}
}})",
                                                               rows);
}

constexpr const char* kBatching =
    "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 300000 preferred_batch_size: 6 }";

class BatchedEnsemble : public testing::Test {
 protected:
  BatchedEnsemble() {
    save_scale(folder_ / "first", 2, kBatching);
    save_scale(folder_ / "second", 10, kBatching);
    write_ensemble(folder_ / ".", "all", 8);  // before its models in the order of names
  }

  std::shared_ptr<Call> call_of(std::int64_t rows, float value, std::promise<Outcome>& promise) {
    auto call = std::make_shared<Call>();
    call->arrival_ns = Clock::steady().now_ns();
    call->request.model = "all";
    const Tensor x = Tensor::from<float>({rows, 2}, std::vector<float>(static_cast<std::size_t>(rows) * 2, value));
    call->request.inputs.push_back({"in", DType::f32, x.shape(), x, {}});
    call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
    return call;
  }

  const test::TemporaryFolder folder_;
  Arbiter arbiter_;
};

TEST_F(BatchedEnsemble, ItsModelsBatchTheRowsOfSeveralRequests) {
  Repository repository(arbiter_, folder_ / ".");
  repository.load_all();
  ASSERT_TRUE(repository.is_ready()) << repository.index().at(0).reason;
  EXPECT_EQ(repository.find("all")->info().inputs.at(0).shape, (Shape{-1, 2}));
  EXPECT_EQ(repository.find("all")->info().settings.config.max_batch_size(), 8);
  std::list<std::promise<Outcome>> promises;
  for (const std::int64_t rows : {1, 2, 3}) {
    promises.emplace_back();
    repository.submit(call_of(rows, static_cast<float>(rows), promises.back()));
  }
  std::int64_t rows = 0;
  for (std::promise<Outcome>& promise : promises) {
    const Outcome outcome = promise.get_future().get();
    ASSERT_FALSE(outcome.failure) << outcome.failure->what();
    const Tensor& y = outcome.response.outputs.at(0).tensor;
    EXPECT_EQ(y.shape(), (Shape{++rows, 2}));
    EXPECT_THAT(y.values<float>(), testing::Each(20 * static_cast<float>(rows)));
  }
  for (const char* model : {"first", "second"}) {
    EXPECT_EQ(repository.find(model)->statistics().executions, 1u) << model;
    EXPECT_EQ(repository.find(model)->statistics().inferences, 6u) << model;
  }
  EXPECT_EQ(repository.find("all")->statistics().inferences, 6u);
}

TEST_F(BatchedEnsemble, RefusesRowsBeyondItsBatchAndShapesThatAreOthers) {
  Repository repository(arbiter_, folder_ / ".");
  repository.load_all();
  std::promise<Outcome> unused;
  const auto refusal = [&](const std::shared_ptr<Call>& call) -> std::string {
    try {
      repository.submit(call);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.reason(), Reason::bad_request);
      return failure.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(call_of(9, 1, unused)), testing::HasSubstr("the request has 9 rows, expected 1 to 8"));
  auto call = call_of(2, 1, unused);
  call->request.inputs[0].tensor = Tensor::from<float>({4}, {1, 2, 3, 4});
  EXPECT_THAT(refusal(call), testing::HasSubstr("has the shape [4], expected [-1, 2]"));
}

TEST_F(BatchedEnsemble, AModelThatTakesFewerRowsIsToldAtLoadAndAtTheRequest) {
  save_scale(folder_ / "second", 10, "max_batch_size: 4");
  Repository repository(arbiter_, folder_ / ".");
  repository.load_all();
  EXPECT_FALSE(repository.is_ready());
  EXPECT_THAT(repository.index().at(0).reason,
              testing::HasSubstr("the ensemble 'all' has the max_batch_size 8, but its step 'second' takes at most 4"));
  save_scale(folder_ / "second", 10, "max_batch_size: 0");
  repository.load("second");
  EXPECT_THROW(repository.load("all"), Failure);
  EXPECT_THAT(repository.index().at(0).reason, testing::HasSubstr("takes no batches"));
  // A model that is exchanged later is found out by the request.
  save_scale(folder_ / "second", 10, kBatching);
  repository.load("second");
  repository.load("all");
  save_scale(folder_ / "second", 10, "max_batch_size: 4");
  repository.load("second");
  std::promise<Outcome> promise;
  repository.submit(call_of(6, 1, promise));
  const Outcome outcome = promise.get_future().get();
  ASSERT_TRUE(outcome.failure);
  EXPECT_STREQ(outcome.failure->what(), "step 'second': the request has 6 rows, expected 1 to 4");
}

}  // namespace
}  // namespace tessera::serve::ensemble_test
