#include "serve/core/models/version_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "serve/core/models/repository.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/graph.h"

namespace tessera::serve::version_shares_test {
namespace {

InferenceRequest request(const std::string& id, const std::string& routing_key = "", std::uint64_t sequence = 0) {
  InferenceRequest request;
  request.model = "m";
  request.id = id;
  request.routing_key = routing_key;
  request.sequence.id.number = sequence;
  return request;
}

TEST(VersionShares, RequestsWithoutAKeyAreSplitEvenly) {
  const VersionShares shares({{1, 9}, {2, 1}});
  EXPECT_NEAR(shares.shares().at(1), 0.9, 1e-12);
  int second = 0;
  for (std::uint64_t count = 0; count < 1000; ++count) second += shares.version_for(request(""), count) == 2;
  EXPECT_NEAR(second, 100, 3);
}

TEST(VersionShares, EqualKeysGetOneVersionAndKeysTogetherTheParts) {
  const VersionShares shares({{1, 0.7}, {2, 0.3}});
  int second = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "user-" + std::to_string(i);
    const std::int64_t version = shares.version_for(request("", key), 0);
    second += version == 2;
    EXPECT_EQ(shares.version_for(request("other id", key), 17), version);
    EXPECT_EQ(shares.version_for(request(key), 5), version);
  }
  EXPECT_NEAR(second, 600, 70);  // three standard deviations of a fair choice are 62
  // A sequence counts before everything else.
  EXPECT_EQ(shares.version_for(request("a", "b", 9), 0), shares.version_for(request("c", "d", 9), 1));
}

TEST(VersionShares, AGrowingPartTakesRequestsAndGivesNoneBack) {
  const VersionShares few({{1, 0.9}, {2, 0.1}}), more({{1, 0.6}, {2, 0.4}}), all({{1, 0}, {2, 1}});
  for (int i = 0; i < 500; ++i) {
    const InferenceRequest each = request(std::to_string(i));
    if (few.version_for(each, 0) == 2) {
      EXPECT_EQ(more.version_for(each, 0), 2);
    }
    EXPECT_EQ(all.version_for(each, 0), 2);
  }
}

TEST(VersionShares, MistakesAreTold) {
  test::expect_error_containing(ErrorKind::invalid_argument, "version 1 has the share -1",
                                [] { VersionShares({{1, -1.0}}); });
  test::expect_error_containing(ErrorKind::invalid_argument, "above 0", [] { VersionShares({{1, 0.0}}); });
}

// Version v gives v · x.
void save_version(const std::filesystem::path& folder, int version) {
  NetBuilder net("scale");
  const NetValue x = net.input("x", DType::f32, {"batch", std::int64_t{1}});
  net.output("y", net.add("Mul", {x, net.constant(Tensor::scalar(static_cast<float>(version)))}));
  std::filesystem::create_directories(folder / std::to_string(version));
  net.build().save(folder / std::to_string(version) / "model.onnx");
}

int version_of(const Repository& repository, const std::string& id) {
  std::promise<Outcome> promise;
  auto call = std::make_shared<Call>();
  call->arrival_ns = Clock::steady().now_ns();
  call->request = request(id);
  call->request.inputs.push_back({"x", DType::f32, {1, 1}, Tensor::from<float>({1, 1}, {1}), {}});
  call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
  repository.submit(call);
  return static_cast<int>(promise.get_future().get().response.outputs.at(0).tensor.values<float>()[0]);
}

TEST(Repository, SplitsRequestsBetweenVersionsAndCountsThemApart) {
  const test::TemporaryFolder folder;
  for (const int version : {1, 2, 3}) save_version(folder / "m", version);
  std::ofstream(folder / "m" / "config.toml") << "[shares]\n1 = 3\n2 = 1\n";
  Arbiter arbiter;
  Repository repository(arbiter, folder / ".");
  repository.load("m");
  EXPECT_EQ(repository.versions("m").size(), 2u);  // those that have a share
  int second = 0;
  for (int i = 0; i < 40; ++i) second += version_of(repository, "") == 2;
  EXPECT_NEAR(second, 10, 2);
  EXPECT_EQ(repository.find("m", "1")->statistics().success.count, static_cast<std::uint64_t>(40 - second));
  EXPECT_EQ(repository.find("m", "2")->statistics().success.count, static_cast<std::uint64_t>(second));

  repository.set_shares("m", {{2, 1}});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(version_of(repository, std::to_string(i)), 2);
  EXPECT_THAT(repository.shares("m"), testing::ElementsAre(testing::Pair(2, 1.0)));
  EXPECT_THROW(repository.set_shares("m", {{3, 1}}), Failure);  // not loaded
  EXPECT_THROW(repository.set_shares("m", {{2, -1}}), Failure);
  EXPECT_THROW(repository.set_shares("other", {{2, 1}}), Failure);
  repository.set_shares("m", {});
  EXPECT_EQ(version_of(repository, "a"), 2);  // the highest

  std::ofstream(folder / "m" / "config.toml") << "[shares]\n1 = 1\n3 = 0\n";
  repository.refresh();
  EXPECT_EQ(version_of(repository, ""), 1);
  std::ofstream(folder / "m" / "config.toml") << "[shares]\n1 = 1\n9 = 1\n";
  EXPECT_THROW(repository.load("m"), Failure);
  EXPECT_EQ(version_of(repository, ""), 1);
}

}  // namespace
}  // namespace tessera::serve::version_shares_test
