#include "serve/core/models/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "serve/core/models/repository.h"
#include "serve/core/models/served_model.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/graph.h"

namespace tessera::serve::warm_up_test {
namespace {

// A servable that keeps what it was asked and answers nothing.
class Listener final : public Servable {
 public:
  explicit Listener(ModelSettings settings) {
    info_.name = "listener";
    info_.settings = std::move(settings);
    info_.inputs = {{"x", DType::f32, {-1, 3}}, {"n", DType::i64, {-1, -1}}, {"t", DType::string, {-1, 1}}};
  }
  const ServableInfo& info() const override { return info_; }
  bool submit(const std::shared_ptr<Call>& call) override {
    requests.push_back(call->request);
    statistics_.succeeded(1, 1, 1, {});
    call->done({});
    return true;
  }
  StatisticsSnapshot statistics() const override { return statistics_.snapshot(); }
  Statistics& recorder() override { return statistics_; }
  void drain() override {}

  const Tensor& tensor(std::size_t request, const std::string& name) const {
    return std::ranges::find(requests.at(request).inputs, name, &InferenceInput::name)->tensor;
  }

  std::vector<InferenceRequest> requests;

 private:
  ServableInfo info_;
  Statistics statistics_;
};

TEST(WarmUp, SendsWhatTheConfigurationSaysAndForgetsThatItWasCounted) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "warmup");
  const std::vector<std::int64_t> numbers{3, 4, 5, 6};
  std::ofstream(folder / "warmup" / "n.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()), 4 * sizeof(std::int64_t));
  Listener listener(parse_pbtxt(R"(max_batch_size: 4
    model_warmup { name: "zeros" count: 2
      inputs { key: "x" value { data_type: TYPE_FP32 zero_data: true } } }
    model_warmup { name: "mixed" batch_size: 2
      inputs { key: "x" value { data_type: TYPE_FP32 dims: 3 random_data: true } }
      inputs { key: "n" value { data_type: TYPE_INT64 dims: 2 input_data_file: "n.bin" } }
      inputs { key: "t" value { data_type: TYPE_STRING dims: 1 random_data: true } } })",
                                "m"));
  run_warm_up(listener, folder.path());
  ASSERT_EQ(listener.requests.size(), 3u);
  EXPECT_EQ(listener.tensor(1, "x").shape(), (Shape{1, 3}));
  EXPECT_THAT(listener.tensor(1, "x").values<float>(), testing::Each(0));
  EXPECT_EQ(listener.tensor(2, "n").shape(), (Shape{2, 2}));
  EXPECT_THAT(listener.tensor(2, "n").values<std::int64_t>(), testing::ElementsAreArray(numbers));
  const auto x = listener.tensor(2, "x").values<float>();
  EXPECT_THAT(x, testing::Each(testing::AllOf(testing::Ge(0), testing::Le(1))));
  EXPECT_NE(x[0], x[1]);
  EXPECT_EQ(listener.tensor(2, "t").values<std::string>()[1].size(), 8u);
  EXPECT_EQ(listener.statistics().success.count, 0u);
}

TEST(WarmUp, OurFormatSaysTheSame) {
  Listener listener(
      parse_model_toml("max_batch_size = 4\n[warmup.usual]\nrows = 3\ncount = 2\n"
                       "[warmup.usual.inputs]\nx = \"random\"\nn = { data = \"zero\", shape = [7] }",
                       "m"));
  run_warm_up(listener, {});
  ASSERT_EQ(listener.requests.size(), 2u);
  EXPECT_EQ(listener.tensor(0, "x").shape(), (Shape{3, 3}));
  EXPECT_NE(listener.tensor(0, "x").values<float>()[0], 0);
  EXPECT_EQ(listener.tensor(0, "n").shape(), (Shape{3, 7}));
  EXPECT_THAT(listener.tensor(0, "n").values<std::int64_t>(), testing::Each(0));
}

TEST(WarmUp, MistakesAreTold) {
  const auto expect = [](const std::string& input, const std::string& message) {
    Listener listener(parse_pbtxt("max_batch_size: 4 model_warmup { name: \"w\" inputs { " + input + " } }", "m"));
    test::expect_error_containing(ErrorKind::invalid_argument, message, [&] { run_warm_up(listener, "/"); });
  };
  expect("key: \"q\" value { zero_data: true }", "'q', which the model has not");
  expect("key: \"n\" value { zero_data: true }", "does not say how large");
  expect("key: \"x\" value { data_type: TYPE_INT8 zero_data: true }", "is TYPE_INT8, but the model's is TYPE_FP32");
  test::expect_error_containing(ErrorKind::unsupported, "ensemble",
                                [] { parse_pbtxt("platform: \"ensemble\" model_warmup { name: \"w\" }", "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "1000",
                                [] { parse_pbtxt("model_warmup { name: \"w\" count: 100000 }", "m"); });
}

TEST(WarmUp, AVersionIsReadyAfterItsWarmUpAndNotAtAllIfThatFails) {
  const test::TemporaryFolder folder;
  NetBuilder net("twice");
  const NetValue x = net.input("x", DType::f32, {"batch", "length"});
  net.output("y", net.sum(x, x));
  std::filesystem::create_directories(folder / "twice" / "1");
  net.build().save(folder / "twice" / "1" / "model.onnx");
  const auto configure = [&](const std::string& inputs) {
    std::ofstream(folder / "twice" / "config.toml") << "max_batch_size = 2\ncache = true\n[warmup.w]\nrows = 2\n"
                                                    << inputs;
  };
  configure("[warmup.w.inputs]\nx = { data = \"random\", shape = [5] }\n");
  Arbiter arbiter;
  Repository repository(arbiter, folder / ".");
  repository.load("twice");
  const auto model = repository.find("twice");
  EXPECT_EQ(model->job()->runs, 1);  // its length is open, so nothing else was run
  EXPECT_EQ(model->statistics().executions, 0u);
  EXPECT_EQ(repository.cache_counters().misses, 0u);
  configure("[warmup.w.inputs]\n");
  EXPECT_THROW(repository.load("twice"), Failure);
  EXPECT_THAT(repository.index().at(0).state, "READY");  // the old one stays
}

}  // namespace
}  // namespace tessera::serve::warm_up_test
