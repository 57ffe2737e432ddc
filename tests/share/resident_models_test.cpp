#include "tessera/resident_models.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "ir/graph.h"
#include "models/models.h"
#include "runtime/memory/memory.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "tessera/model.h"

namespace tessera::test::resident_models_test {
namespace {

using namespace std::chrono_literals;

Model model(std::uint64_t seed, std::int64_t width = 32) {
  models::BuildOptions options;
  options.dims = {{"batch", 1}, {"width", width}, {"layers", 2}};
  options.seed = seed;
  return Model(std::make_shared<const ir::Graph>(models::build_model("mlp", options)));
}

// "7" is the model of seed 7; "7*64" is wider.
Model model_of(const std::string& name) {
  const auto star = name.find('*');
  return model(std::stoull(name), star == std::string::npos ? 32 : std::stoll(name.substr(star + 1)));
}

std::unique_ptr<Session> session_of(const std::string& name) {
  const Model loaded = model_of(name);
  auto session = std::make_unique<Session>(loaded);
  session->run(runtime::random_inputs(loaded, 1));  // makes the plan, which counts
  return session;
}

std::int64_t bytes_of(const std::string& name) {
  const MemoryUse use = session_of(name)->memory();
  return use.weights_bytes + use.packed_weights_bytes + use.variables_bytes + use.plans_bytes;
}

ModelLoader loader() {
  return {[](const std::string& name) { return bytes_of(name); }, session_of};
}

TEST(ResidentModels, FiftyModelsInABudgetForTenServeAZipfLoad) {
  constexpr int kModels = 50, kThreads = 4, kRequests = 150;
  const std::int64_t one = bytes_of("1");
  std::vector<Tensor> expected;
  const NamedValues inputs = runtime::random_inputs(model(0), 9);
  for (int i = 0; i < kModels; ++i) expected.push_back(Session(model(i)).run(inputs).begin()->second.tensor());
  ResidentModels models({[&](const std::string&) { return one + one / 8; }, session_of},
                        {.budget_bytes = 10 * one + one / 2});
  std::vector<double> weights;
  for (int i = 0; i < kModels; ++i) weights.push_back(1 / std::pow(i + 1, 1.1));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::discrete_distribution<int> zipf(weights.begin(), weights.end());
      for (int request = 0; request < kRequests; ++request) {
        const int which = zipf(random);
        const ResidentModel held = models.acquire(std::to_string(which));
        const Tensor result = held.session().run(inputs).begin()->second.tensor();
        wrong += identical(result, expected[static_cast<std::size_t>(which)]) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const ResidentModelReport report = models.report();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(report.failures, 0);
  EXPECT_EQ(report.hits + report.loads + report.joined, kThreads * kRequests);
  EXPECT_GT(report.evictions, 0);
  EXPECT_LE(report.peak_bytes, 10 * one + one / 2);
  EXPECT_LE(report.models.size(), 10u);
  // The ten most wanted of 50 have two thirds of the requests, any ten have a fifth. How long loads take on a busy
  // machine, which decides as well, lies between.
  EXPECT_GT(report.hits, kThreads * kRequests / 3);
}

TEST(ResidentModels, OneLoadServesAllWhoAsk) {
  std::atomic<int> loads{0};
  ResidentModels models({[](const std::string&) { return 1; },
                         [&](const std::string& name) {
                           ++loads;
                           std::this_thread::sleep_for(50ms);
                           return session_of(name);
                         }},
                        {.budget_bytes = 1 << 24});
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) threads.emplace_back([&] { EXPECT_TRUE(models.acquire("3")); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loads, 1);
  const ResidentModelReport report = models.report();
  EXPECT_EQ(report.loads, 1);
  EXPECT_EQ(report.hits + report.joined, 5);
  ASSERT_EQ(report.models.size(), 1u);
  EXPECT_EQ(report.models[0].users, 0);
  EXPECT_EQ(report.models[0].uses, 6);
  EXPECT_GE(report.models[0].load_ns, 50'000'000);
}

TEST(ResidentModels, ModelsInUseStay) {
  const std::int64_t one = bytes_of("1");
  ResidentModels models(loader(), {.budget_bytes = 2 * one + one / 2, .wait_ns = 20'000'000});
  ResidentModel first = models.acquire("1"), second = models.acquire("2");
  expect_error_containing(ErrorKind::over_budget, "models in use hold", [&] { models.acquire("3"); });
  EXPECT_EQ(models.report().evictions, 0);
  second = {};
  EXPECT_TRUE(models.acquire("3"));
  const ResidentModelReport report = models.report();
  EXPECT_EQ(report.evictions, 1);
  ASSERT_EQ(report.models.size(), 2u);
  EXPECT_EQ(report.models[0].name, "1");
  EXPECT_EQ(report.failures, 1);
}

TEST(ResidentModels, WaitForWhatIsReleased) {
  const std::int64_t one = bytes_of("1");
  ResidentModels models(loader(), {.budget_bytes = one + one / 2});
  ResidentModel held = models.acquire("1");
  std::thread other([&] { EXPECT_EQ(models.acquire("2").name(), "2"); });
  std::this_thread::sleep_for(20ms);
  held = {};
  other.join();
}

TEST(ResidentModels, ErrorsSayWhatIsWrong) {
  expect_error(ErrorKind::invalid_argument, "the budget of all models is 0 bytes, expected more",
               [] { ResidentModels(loader(), {}); });
  ResidentModels small(loader(), {.budget_bytes = 1000});
  expect_error_containing(ErrorKind::over_budget, "but the budget of all models is 1000 B",
                          [&] { small.acquire("1"); });
  // A loader that promises too little is found out.
  ResidentModels promised({[](const std::string&) { return 1; }, session_of}, {.budget_bytes = 1000});
  expect_error_containing(ErrorKind::over_budget, "model '1' needs", [&] { promised.acquire("1"); });
  EXPECT_EQ(promised.report().bytes, 0);
  int tries = 0;
  ResidentModels failing({[](const std::string&) { return 1; },
                          [&](const std::string& name) -> std::unique_ptr<Session> {
                            if (++tries == 1) throw Error(ErrorKind::not_found, "no file of model " + name);
                            return session_of(name);
                          }},
                         {.budget_bytes = 1 << 24});
  expect_error(ErrorKind::not_found, "no file of model 5", [&] { failing.acquire("5"); });
  EXPECT_TRUE(failing.acquire("5"));
  EXPECT_EQ(failing.report().failures, 1);
}

TEST(ResidentModels, EvictsWhatIsLeastWorthItsBytes) {
  const std::int64_t small = bytes_of("1"), large = bytes_of("2*256");
  ASSERT_GT(large, 4 * small);
  // How long a load takes is part of what a model is worth, so that of the small ones is made to.
  const auto load = [](const std::string& name) {
    if (name != "2*256") std::this_thread::sleep_for(20ms);
    return session_of(name);
  };
  ResidentModels models({bytes_of, load}, {.budget_bytes = large + 2 * small + small / 2});
  for (int use = 0; use < 100; ++use) models.acquire("1");
  models.acquire("2*256");
  models.acquire("3");
  models.acquire("4");  // one has to go: the large one, which was used once
  const ResidentModelReport report = models.report();
  ASSERT_EQ(report.models.size(), 3u);
  EXPECT_EQ(report.models[0].name, "1");
  EXPECT_EQ(report.models[1].name, "3");
  EXPECT_EQ(report.models[2].name, "4");
}

TEST(ResidentModels, ForgottenModelsAreLoadedAnew) {
  ResidentModels models(loader(), {.budget_bytes = 1 << 24});
  models.forget("1");
  {
    const ResidentModel held = models.acquire("1");
    models.forget("1");
    EXPECT_TRUE(models.report().models.empty());
    EXPECT_GT(models.report().bytes, 0);
    EXPECT_NO_THROW(held.session().run(runtime::random_inputs(model(1), 1)));
    EXPECT_NE(&models.acquire("1").session(), &held.session());
  }
  EXPECT_EQ(models.report().loads, 2);
  models.forget("1");
  EXPECT_EQ(models.report().bytes, 0);
}

TEST(ResidentModels, HandlesOutliveThem) {
  ResidentModel held;
  {
    ResidentModels models(loader(), {.budget_bytes = 1 << 24});
    held = models.acquire("1");
  }
  EXPECT_NO_THROW(held.session().run(runtime::random_inputs(model(1), 1)));
}

TEST(ResidentModels, KeepAnArenaReady) {
  runtime::BlockPool& arenas = runtime::arena_blocks();
  arenas.trim();
  {
    const ResidentModels models(loader(), {.budget_bytes = 1 << 24, .standby_arena_bytes = 8 << 20});
    for (int period = 0; period < 4; ++period) arenas.end_period();
    EXPECT_GE(arenas.idle_bytes(), 8 << 20);
  }
  for (int period = 0; period < 4; ++period) arenas.end_period();
  EXPECT_EQ(arenas.idle_bytes(), 0);
}

}  // namespace
}  // namespace tessera::test::resident_models_test
