#include "serve/core/models/served_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>
#include <thread>

#include "serve/core/models/repository.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/graph.h"

namespace tessera::serve::served_model_test {
namespace {

// y = x · a + z: rows do not touch each other.
Model affine(float factor, const std::string& batch = "batch") {
  NetBuilder net("affine");
  const NetValue x = net.input("x", DType::f32, {batch, std::int64_t{2}});
  const NetValue z = net.input("z", DType::f32, {batch, std::int64_t{2}});
  net.output("y", net.sum(net.add("Mul", {x, net.constant(Tensor::scalar(factor))}), z));
  return net.build();
}

ModelSettings settings(const std::string& text) {
  ModelSettings settings = parse_model_toml(text, "test");
  settings.config.set_name("affine");
  return settings;
}

std::shared_ptr<Call> call_of(std::vector<float> x, std::promise<Outcome>& promise) {
  auto call = std::make_shared<Call>();
  call->arrival_ns = Clock::steady().now_ns();
  call->request.model = "affine";
  const auto rows = static_cast<std::int64_t>(x.size()) / 2;
  const Tensor tensor = Tensor::from<float>({rows, 2}, x);
  for (const char* name : {"x", "z"}) call->request.inputs.push_back({name, DType::f32, {rows, 2}, tensor, {}});
  call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
  return call;
}

std::vector<float> result(const Outcome& outcome) {
  if (outcome.failure) return {};
  const auto values = outcome.response.outputs.at(0).tensor.values<float>();
  return {values.begin(), values.end()};
}

TEST(ServedModel, BatchesRequestsAndGivesEachItsOwnRows) {
  Arbiter arbiter;
  ServedModel model(arbiter, affine(3), "1",
                    settings("max_batch_size = 8\n[batching]\ndelay_us = 200000\npreferred = [3]"), {});
  std::promise<Outcome> a, b;
  ASSERT_TRUE(model.submit(call_of({1, 2}, a)));
  ASSERT_TRUE(model.submit(call_of({10, 20, 30, 40}, b)));
  EXPECT_THAT(result(a.get_future().get()), testing::ElementsAre(4, 8));
  EXPECT_THAT(result(b.get_future().get()), testing::ElementsAre(40, 80, 120, 160));
  const StatisticsSnapshot statistics = model.statistics();
  EXPECT_EQ(statistics.executions, 1u);
  EXPECT_EQ(statistics.inferences, 3u);
  EXPECT_EQ(statistics.success.count, 2u);
}

TEST(ServedModel, KnowsABatchByTheNameOfTheDimensionAlone) {
  Arbiter arbiter;
  EXPECT_EQ(ServedModel(arbiter, affine(1), "1", {}, {}).info().settings.config.max_batch_size(), 8);
  EXPECT_EQ(ServedModel(arbiter, affine(1, "length"), "1", {}, {}).info().settings.config.max_batch_size(), 0);
}

TEST(ServedModel, RefusesAtOnceWhatCannotBeAnsweredInTime) {
  Arbiter arbiter;
  ServedModel model(arbiter, affine(1), "1", settings("max_batch_size = 8\n[batching]\nqueue = 1\ndelay_us = 300000"),
                    {});
  std::promise<Outcome> first, late, more;
  ASSERT_TRUE(model.submit(call_of({1, 2}, first)));
  const auto reason = [&](const std::shared_ptr<Call>& call) {
    try {
      model.submit(call);
    } catch (const Failure& failure) {
      EXPECT_GT(failure.retry_after_s(), 0);
      return failure.reason();
    }
    return Reason::internal;
  };
  EXPECT_EQ(reason(call_of({1, 2}, more)), Reason::unavailable);  // the queue is full
  EXPECT_THAT(result(first.get_future().get()), testing::ElementsAre(2, 4));
  auto impossible = call_of({1, 2}, late);
  impossible->request.timeout_ns = 1;
  EXPECT_EQ(reason(impossible), Reason::unavailable);
  EXPECT_EQ(model.statistics().refused.at(Reason::unavailable), 2u);
}

// y = x · w, x of [length, 512]
Model product() {
  NetBuilder net("product");
  Tensor w(DType::f32, {512, 512});
  std::ranges::fill(w.mutable_values<float>(), 0.0f);
  const NetValue x = net.input("x", DType::f32, {"length", std::int64_t{512}});
  net.output("y", net.add("MatMul", {x, net.constant(w)}));
  return net.build();
}

TEST(ServedModel, AdmitsByWhatRunsOnInputsOfTheSameShapesTook) {
  Arbiter arbiter;
  ServedModel model(arbiter, product(), "1", settings("max_batch_size = 0"), {});
  const auto submit = [&](std::int64_t length, std::int64_t timeout_ns) {
    std::promise<Outcome> promise;
    auto call = std::make_shared<Call>();
    Tensor x(DType::f32, {length, 512});
    std::ranges::fill(x.mutable_values<float>(), 0.0f);
    call->request.inputs.push_back({"x", DType::f32, x.shape(), x, {}});
    call->request.timeout_ns = timeout_ns;
    call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
    call->arrival_ns = Clock::steady().now_ns();
    model.submit(call);
    EXPECT_FALSE(promise.get_future().get().failure.has_value());
    return Clock::steady().now_ns() - call->arrival_ns;
  };
  constexpr std::int64_t kLong = 8192;
  submit(1, 0);
  std::int64_t long_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 10; ++i) long_ns = std::min(long_ns, submit(kLong, 0));
  EXPECT_THROW(submit(kLong, long_ns / 10), Failure);
  // By the rows of the latest runs alone it would be refused.
  std::promise<Outcome> promise;
  const auto call = std::make_shared<Call>();
  call->request.inputs.push_back(
      {"x", DType::f32, {1, 512}, Tensor::from<float>({1, 512}, std::vector<float>(512)), {}});
  call->request.timeout_ns = long_ns / 2;
  call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
  call->arrival_ns = Clock::steady().now_ns();
  EXPECT_NO_THROW(model.submit(call));
  promise.get_future().get();  // in time or not: the machine may be busy
}

// A goal that no run meets: without trials, a model whose runs were slow for a while would refuse everything for ever.
TEST(ServedModel, TriesNowAndThenWhetherItIsStillTooSlow) {
  Arbiter arbiter;
  ServedModel model(arbiter, affine(3), "1", settings("max_batch_size = 8\ngoal_ms = 0.0001"), {});
  bool is_answered = false;
  for (int i = 0; i < 1000 && !is_answered; ++i) {
    std::promise<Outcome> promise;
    try {
      ASSERT_TRUE(model.submit(call_of({1, 2}, promise)));
      EXPECT_THAT(result(promise.get_future().get()), testing::ElementsAre(4, 8));
      is_answered = true;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.reason(), Reason::unavailable);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  EXPECT_TRUE(is_answered);
  // What a client sets itself is not overstepped on trial.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  std::promise<Outcome> promise;
  const std::shared_ptr<Call> call = call_of({1, 2}, promise);
  call->request.timeout_ns = 1;
  EXPECT_THROW(model.submit(call), Failure);
}

TEST(ServedModel, CancelledRequestsAreNotComputed) {
  Arbiter arbiter;
  ServedModel model(arbiter, affine(1), "1", settings("max_batch_size = 8\n[batching]\ndelay_us = 50000"), {});
  std::promise<Outcome> gone, stays;
  const auto call = call_of({1, 2}, gone);
  ASSERT_TRUE(model.submit(call));
  call->cancellation.cancel();
  ASSERT_TRUE(model.submit(call_of({1, 2}, stays)));
  const Outcome outcome = gone.get_future().get();
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_EQ(outcome.failure->reason(), Reason::cancelled);
  EXPECT_THAT(result(stays.get_future().get()), testing::ElementsAre(2, 4));
  EXPECT_EQ(model.statistics().inferences, 1u);
}

TEST(ServedModel, RequestsThatDoNotFitAreToldWhy) {
  Arbiter arbiter;
  ServedModel model(arbiter, affine(1), "1", {}, {});
  std::promise<Outcome> unused;
  const auto refusal = [&](const std::function<void(InferenceRequest&)>& change) -> std::string {
    const auto call = call_of({1, 2}, unused);
    change(call->request);
    try {
      model.submit(call);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.reason(), Reason::bad_request);
      return failure.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal([](auto& r) { r.inputs[1].name = "q"; }), testing::HasSubstr("no input 'q'"));
  EXPECT_THAT(refusal([](auto& r) { r.inputs.pop_back(); }), testing::HasSubstr("input 'z' is missing"));
  EXPECT_THAT(refusal([](auto& r) { r.inputs[1].name = "x"; }), testing::HasSubstr("there twice"));
  EXPECT_THAT(refusal([](auto& r) { r.inputs[0].tensor = Tensor::from<double>({1, 2}, {1, 2}); }),
              testing::HasSubstr("is FP64, expected FP32"));
  EXPECT_THAT(refusal([](auto& r) { r.inputs[0].tensor = Tensor::from<float>({1, 3}, {1, 2, 3}); }),
              testing::HasSubstr("has the shape [1, 3], expected [-1, 2]"));
  EXPECT_THAT(refusal([](auto& r) { r.outputs.push_back({"q", false, 0, {}}); }), testing::HasSubstr("no output 'q'"));
}

TEST(Repository, ExchangesAModelWhileRequestsRun) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "affine" / "1");
  affine(1).save(folder / "affine" / "1" / "model.onnx");
  Arbiter arbiter;
  Repository repository(arbiter, folder / ".");
  repository.load_all();
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        std::promise<Outcome> promise;
        repository.submit(call_of({1, 2}, promise));
        const std::vector<float> y = result(promise.get_future().get());
        const bool fits = y == std::vector<float>{2, 4} || y == std::vector<float>{5, 10};
        ++(fits ? answered : wrong);
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    affine(i % 2 == 0 ? 4.0f : 1.0f).save(folder / "affine" / "1" / "model.onnx");
    repository.load("affine");
  }
  const int before = answered;
  while (answered < before + 10) std::this_thread::yield();
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  // A model that cannot be loaded leaves the old one in its place.
  std::filesystem::resize_file(folder / "affine" / "1" / "model.onnx", 10);
  EXPECT_THROW(repository.load("affine"), Failure);
  std::promise<Outcome> promise;
  repository.submit(call_of({1, 2}, promise));
  EXPECT_FALSE(result(promise.get_future().get()).empty());
  repository.unload("affine");
  EXPECT_THROW(repository.find("affine"), Failure);
}

TEST(Repository, NamesAndVersionsCannotLeaveTheFolder) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "models");
  Arbiter arbiter;
  Repository repository(arbiter, folder / "models");
  for (const char* name : {"..", "../models", "/etc", "", "a/b", ".hidden"})
    EXPECT_THROW(repository.load(name), Failure) << name;
}

TEST(ModelSettings, ReadsTritonsFormatAndPassesOverWhatConcernsGpus) {
  const ModelSettings settings = parse_pbtxt(
      "name: \"m\" max_batch_size: 16 dynamic_batching { preferred_batch_size: [4, 8] "
      "max_queue_delay_microseconds: 100 default_queue_policy { max_queue_size: 7 } } "
      "instance_group [ { kind: KIND_CPU count: 2 } ] optimization { cuda { graphs: true } } "
      "parameters { key: \"priority\" value { string_value: \"realtime\" } } "
      "parameters { key: \"goal_ms\" value { string_value: \"2.5\" } }",
      "m/config.pbtxt");
  EXPECT_EQ(settings.config.max_batch_size(), 16);
  EXPECT_EQ(settings.delay_ns(), 100'000);
  EXPECT_EQ(settings.queue_limit(), 7);
  EXPECT_EQ(settings.instances(), 2);
  EXPECT_EQ(settings.priority, Priority::realtime);
  EXPECT_EQ(settings.goal_ns, 2'500'000);
}

TEST(ModelSettings, MistakesAreTold) {
  test::expect_error_containing(ErrorKind::invalid_argument, "m: line 1, column 17",
                                [] { parse_pbtxt("max_batch_size: x", "m"); });
  test::expect_error_containing(ErrorKind::unsupported, "KIND_CPU",
                                [] { parse_pbtxt("instance_group { kind: KIND_GPU }", "m"); });
  test::expect_error_containing(ErrorKind::unsupported, "iterative sequences",
                                [] { parse_pbtxt("sequence_batching { iterative_sequence: true }", "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "response cache",
                                [] { parse_pbtxt("sequence_batching {} response_cache { enable: true }", "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "[batching] and [sequence]",
                                [] { parse_model_toml("[batching]\n[sequence]", "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "expected realtime",
                                [] { parse_model_toml("priority = \"high\"", "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "preferred_batch_size",
                                [] { parse_model_toml("max_batch_size = 2\n[batching]\npreferred = [3]", "m"); });
}

TEST(ModelSettings, NumbersHaveBounds) {
  for (const char* text : {"goal_ms = 1e300", "goal_ms = -1", "goal_ms = nan", "memory_limit_mib = 9000000000000000000",
                           "memory_limit_mib = -1", "threads = 5000000000", "[batching]\ndelay_us = 1e300",
                           "max_batch_size = 4\n[batching]\npreferred = [1e300]", "[sequence]\nidle_ms = 1e300",
                           "[sequence]\nslots = -1", "[sequence]\ndelay_us = 9000000000000000000",
                           "[warmup.a]\nrows = -1", "[warmup.a]\ncount = 9000000000000000000"}) {
    SCOPED_TRACE(text);
    test::expect_error_containing(ErrorKind::invalid_argument, "expected 0 to", [&] { parse_model_toml(text, "m"); });
  }
  for (const auto& [key, value] :
       {std::pair("goal_ms", "1e300"), std::pair("memory_limit_mib", "1e30"), std::pair("threads", "1e30")}) {
    SCOPED_TRACE(key);
    const std::string text = fmt::format(R"(parameters {{ key: "{}" value {{ string_value: "{}" }} }})", key, value);
    test::expect_error_containing(ErrorKind::invalid_argument, "expected 0 to", [&] { parse_pbtxt(text, "m"); });
  }
  for (const char* text : {"dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }",
                           "sequence_batching { max_sequence_idle_microseconds: 18446744073709551615 }",
                           "sequence_batching { oldest { max_queue_delay_microseconds: 10000001 } }",
                           "sequence_batching { direct { max_queue_delay_microseconds: 10000001 } }"}) {
    SCOPED_TRACE(text);
    test::expect_error_containing(ErrorKind::invalid_argument, "expected 0 to", [&] { parse_pbtxt(text, "m"); });
  }
  test::expect_error_containing(ErrorKind::invalid_argument, "have 80 instances together, expected at most 64",
                                [] { parse_pbtxt("instance_group { count: 40 } instance_group { count: 40 }", "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "versions in m is 0, expected 1 to 1000",
                                [] { parse_model_toml("versions = 0", "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "weight", [] { parse_model_toml("weight = inf", "m"); });
  for (const char* count : {"0", "-1", "1000000"})
    test::expect_error_containing(ErrorKind::invalid_argument,
                                  fmt::format("instances in m is {}, expected 1 to", count),
                                  [&] { parse_model_toml(fmt::format("instances = {}", count), "m"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "is 100000000, expected 0 to",
                                [] { parse_model_toml("max_batch_size = 100000000", "m"); });
}

TEST(ServedModel, ComputesAShortRunOnTheThreadOfItsRequest) {
  Arbiter arbiter;
  ServedModel model(arbiter, affine(2), "1", settings("max_batch_size = 4"), {});
  std::promise<Outcome> promise;
  const std::shared_ptr<Call> call = call_of({1, 2}, promise);
  call->may_run_here = true;
  std::thread::id thread;
  call->done = [&](Outcome outcome) {
    thread = std::this_thread::get_id();
    promise.set_value(std::move(outcome));
  };
  ASSERT_TRUE(model.submit(call));
  EXPECT_THAT(result(promise.get_future().get()), testing::ElementsAre(3, 6));
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_EQ(model.statistics().running, 0);
  // A request that waits for others does not hold its thread.
  ServedModel waiting(arbiter, affine(2), "2", settings("max_batch_size = 4\n[batching]\ndelay_us = 1000"), {});
  std::promise<Outcome> later;
  const std::shared_ptr<Call> second = call_of({1, 2}, later);
  second->may_run_here = true;
  second->done = [&](Outcome outcome) {
    thread = std::this_thread::get_id();
    later.set_value(std::move(outcome));
  };
  ASSERT_TRUE(waiting.submit(second));
  EXPECT_THAT(result(later.get_future().get()), testing::ElementsAre(3, 6));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(ServedModel, ManyThreadsThatMayComputeLoseNoRequest) {
  Arbiter arbiter;
  ServedModel model(arbiter, affine(2), "1", settings("max_batch_size = 4"), {});
  constexpr int kThreads = 4, kRequests = 100;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kRequests; ++i) {
        std::promise<Outcome> promise;
        const std::shared_ptr<Call> call = call_of({static_cast<float>(i), 2}, promise);
        call->may_run_here = i % 3 != 0;
        if (!model.submit(call)) return;
        right += result(promise.get_future().get()) == std::vector<float>{3.0f * static_cast<float>(i), 6} ? 1 : 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kRequests);
  model.drain();
}

}  // namespace
}  // namespace tessera::serve::served_model_test
