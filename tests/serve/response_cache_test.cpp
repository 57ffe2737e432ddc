#include "serve/core/models/response_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <thread>

#include "serve/core/models/repository.h"
#include "serve/core/operations/metrics.h"
#include "support/temporary_folder.h"
#include "tessera/graph.h"

namespace tessera::serve::response_cache_test {
namespace {

InferenceInput input(const std::string& name, const Tensor& tensor) {
  return {name, tensor.dtype(), tensor.shape(), tensor, {}};
}

InferenceRequest request(std::vector<InferenceInput> inputs, std::vector<RequestedOutput> outputs = {}) {
  InferenceRequest request;
  request.inputs = std::move(inputs);
  request.outputs = std::move(outputs);
  return request;
}

TEST(ContentKey, DependsOnEverythingThatTheAnswerDependsOn) {
  const Tensor x = Tensor::from<float>({2}, {1, 2});
  const std::string key = content_key(request({input("x", x)}));
  EXPECT_EQ(key.size(), 32u);
  const std::vector<InferenceRequest> others{
      request({input("y", x)}),
      request({input("x", Tensor::from<float>({2}, {1, 3}))}),
      request({input("x", Tensor::from<float>({2, 1}, {1, 2}))}),
      request({input("x", Tensor::from<std::int32_t>({2}, {0x3f800000, 0x40000000}))}),
      request({input("x", x), input("y", x)}),
      request({input("x", x)}, {{"a", true, 0, {}}}),
      request({input("x", x)}, {{"a", true, 3, {}}}),
      request({}),
  };
  for (const InferenceRequest& other : others) EXPECT_NE(content_key(other), key);
  InferenceRequest same = request({input("x", x.clone())});
  same.id = "7";
  same.priority = 3;
  same.timeout_ns = 5;
  EXPECT_EQ(content_key(same), key);
}

TEST(ContentKey, OrderOfInputsDoesNotMatterAndTextsDoNotRunIntoEachOther) {
  const Tensor x = Tensor::from<float>({1}, {1}), y = Tensor::from<float>({1}, {2});
  EXPECT_EQ(content_key(request({input("x", x), input("y", y)})), content_key(request({input("y", y), input("x", x)})));
  const auto texts = [](const std::string& a, const std::string& b) {
    Tensor tensor(DType::string, {2});
    tensor.mutable_values<std::string>()[0] = a;
    tensor.mutable_values<std::string>()[1] = b;
    return content_key(request({input("x", tensor)}));
  };
  EXPECT_NE(texts("ab", "c"), texts("a", "bc"));
  EXPECT_EQ(texts("ab", "c"), texts("ab", "c"));
}

std::vector<OutputTensor> answer(float value, std::int64_t elements = 250) {
  Tensor tensor(DType::f32, {elements});
  std::ranges::fill(tensor.mutable_values<float>(), value);
  return {{"y", tensor}};
}

TEST(ResponseCache, TheAnswersUsedLeastRecentlyGoFirst) {
  ResponseCache cache(2 * 1600);  // two answers of 1000 bytes, with what is counted beside them
  const std::uint64_t owner = cache.add_owner();
  cache.insert(owner, "a", answer(1));
  cache.insert(owner, "b", answer(2));
  ASSERT_TRUE(cache.find(owner, "a").has_value());
  cache.insert(owner, "c", answer(3));
  EXPECT_FALSE(cache.find(owner, "b").has_value());
  EXPECT_EQ(cache.find(owner, "a")->at(0).tensor.values<float>()[0], 1);
  EXPECT_EQ(cache.find(owner, "c")->at(0).tensor.values<float>()[0], 3);
  cache.insert(owner, "d", answer(4, 1000));  // larger than the cache
  EXPECT_FALSE(cache.find(owner, "d").has_value());
  const CacheCounters counters = cache.counters();
  EXPECT_EQ(counters.entries, 2u);
  EXPECT_EQ(counters.evictions, 1u);
  EXPECT_EQ(counters.hits, 3u);
  EXPECT_EQ(counters.misses, 2u);
  EXPECT_LE(counters.bytes, counters.most_bytes);
}

TEST(ResponseCache, OwnersDoNotSeeEachOther) {
  ResponseCache cache(1 << 20);
  const std::uint64_t first = cache.add_owner(), second = cache.add_owner();
  cache.insert(first, "a", answer(1));
  cache.insert(second, "a", answer(2));
  EXPECT_EQ(cache.find(second, "a")->at(0).tensor.values<float>()[0], 2);
  cache.remove_all_of(first);
  EXPECT_FALSE(cache.find(first, "a").has_value());
  EXPECT_TRUE(cache.find(second, "a").has_value());
  cache.remove_all_of(second);
  EXPECT_EQ(cache.counters().bytes, 0);
}

TEST(ResponseCache, KeepsACopyAndNotTheBatchThatAnAnswerIsAViewOf) {
  ResponseCache cache(1 << 20);
  const std::uint64_t owner = cache.add_owner();
  std::vector<OutputTensor> outputs = answer(1);
  cache.insert(owner, "a", outputs);
  outputs[0].tensor.mutable_data<float>()[0] = 9;
  EXPECT_EQ(cache.find(owner, "a")->at(0).tensor.values<float>()[0], 1);
}

// y = factor · x
void save_model(const std::filesystem::path& folder, float factor, const std::string& config) {
  NetBuilder net("scale");
  const NetValue x = net.input("x", DType::f32, {"batch", std::int64_t{2}});
  net.output("y", net.add("Mul", {x, net.constant(Tensor::scalar(factor))}));
  std::filesystem::create_directories(folder / "1");
  net.build().save(folder / "1" / "model.onnx");
  std::ofstream(folder / "config.toml") << config;
}

std::vector<float> ask(const Repository& repository, std::vector<float> x) {
  std::promise<Outcome> promise;
  auto call = std::make_shared<Call>();
  call->arrival_ns = Clock::steady().now_ns();
  call->request = request({input("x", Tensor::from<float>({1, 2}, x))});
  call->request.model = "scale";
  call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
  repository.submit(call);
  const Outcome outcome = promise.get_future().get();
  if (outcome.failure) return {};
  const auto values = outcome.response.outputs.at(0).tensor.values<float>();
  return {values.begin(), values.end()};
}

TEST(Repository, AnswersEqualRequestsFromTheCacheUntilTheModelIsExchanged) {
  const test::TemporaryFolder folder;
  save_model(folder / "scale", 2, "cache = true\n");
  Arbiter arbiter;
  Repository repository(arbiter, folder / ".");
  repository.load_all();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(ask(repository, {1, 2}), testing::ElementsAre(2, 4));
  EXPECT_THAT(ask(repository, {3, 4}), testing::ElementsAre(6, 8));
  const StatisticsSnapshot statistics = repository.find("scale")->statistics();
  EXPECT_EQ(statistics.success.count, 4u);
  EXPECT_EQ(statistics.cache_hit.count, 2u);
  EXPECT_EQ(statistics.cache_miss.count, 2u);
  EXPECT_EQ(statistics.inferences, 2u);  // what was computed
  EXPECT_EQ(statistics.queue.count, 4u);
  EXPECT_EQ(repository.cache_counters().entries, 2u);
  const std::string metrics = metrics_text(repository, {});
  EXPECT_THAT(metrics, testing::HasSubstr("nv_cache_num_hits_per_model{model=\"scale\",version=\"1\"} 2"));
  EXPECT_THAT(metrics, testing::HasSubstr("nv_cache_num_misses 2"));

  save_model(folder / "scale", 5, "cache = true\n");
  repository.load("scale");
  EXPECT_THAT(ask(repository, {1, 2}), testing::ElementsAre(5, 10));
  repository.unload("scale");
  while (repository.cache_counters().bytes > 0) std::this_thread::yield();  // the old versions end in the background
}

TEST(Repository, AModelThatDoesNotAskForTheCacheIsComputedEachTime) {
  const test::TemporaryFolder folder;
  save_model(folder / "scale", 2, "");
  Arbiter arbiter;
  Repository repository(arbiter, folder / ".");
  repository.load_all();
  for (int i = 0; i < 2; ++i) ask(repository, {1, 2});
  EXPECT_EQ(repository.find("scale")->statistics().inferences, 2u);
  EXPECT_EQ(repository.cache_counters().misses, 0u);
}

}  // namespace
}  // namespace tessera::serve::response_cache_test
