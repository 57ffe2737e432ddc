#include "serve/observe/access_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "serve/observe/request_id.h"
#include "support/temporary_folder.h"
#include "tessera/clock.h"

namespace tessera::serve::access_log_test {
namespace {

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

void fill(AccessRecord& record, const std::string& id) {
  record.id = id;
  record.protocol = "http";
  record.path = "/v2/\"\n\xff";
  record.status = 429;
  record.bytes_in = 7;
  record.ended_ns = Clock::steady().now_ns();
  record.began_ns = record.ended_ns - 5'000'000;
  record.queue_ns = 2'000'000;
  record.run_ns = 3'000'000;
}

TEST(AccessLog, WritesALineARequest) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "access.log";
  {
    AccessLog log({path.string(), 1 << 20, 2});
    for (int i = 0; i < 100; ++i) {
      AccessRecord record;
      fill(record, std::to_string(i));
      log.add(record);
    }
  }
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 100u);
  EXPECT_EQ(lines[3]["id"], "3");
  EXPECT_EQ(lines[3]["status"], 429);
  EXPECT_EQ(lines[3]["bytes_in"], 7);
  EXPECT_EQ(lines[3]["duration_us"], 5000);
  EXPECT_EQ(lines[3]["queue_us"], 2000);
  EXPECT_EQ(lines[3]["run_us"], 3000);
  EXPECT_EQ(std::string(lines[3]["time"]).size(), std::string("2026-11-27T10:00:00.123Z").size());
}

TEST(AccessLog, RotatesAndKeepsSoManyFiles) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "access.log";
  for (int round = 0; round < 5; ++round) {
    AccessLog log({path.string(), 100, 2});
    AccessRecord record;
    fill(record, std::to_string(round));
    log.add(record);
  }
  EXPECT_EQ(lines_of(path).at(0)["id"], "4");
  EXPECT_EQ(lines_of(path.string() + ".1").at(0)["id"], "3");
  EXPECT_EQ(lines_of(path.string() + ".2").at(0)["id"], "2");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".3"));
}

TEST(AccessLog, CountsWhatAFullDiskDoesNotTake) {
  AccessLog log({"/dev/full", 1 << 20, 2});
  AccessRecord record;
  fill(record, "a");
  log.add(record);
  const std::int64_t end_ns = Clock::steady().now_ns() + 10'000'000'000;
  while (log.lost() == 0 && Clock::steady().now_ns() < end_ns) std::this_thread::yield();
  EXPECT_EQ(log.lost(), 1u);
  for (int i = 0; i < 100'000; ++i) log.add(record);  // what waits is bounded
  EXPECT_GT(log.lost(), 1000u);
}

TEST(RequestId, KeepsWellFormedOnesAndMakesOthers) {
  EXPECT_EQ(request_id("order-17_a.b:c/d+e=@"), "order-17_a.b:c/d+e=@");
  std::set<std::string> made;
  for (const std::string& given :
       {std::string(), std::string("a b"), std::string("a\nb"), std::string("a\"b"), std::string("\xc3\xa9"),
        std::string(129, 'a'), std::string("a,b"), std::string("<a>")}) {
    const std::string id = request_id(given);
    EXPECT_EQ(id.size(), 16u);
    EXPECT_TRUE(made.insert(id).second);
  }
  EXPECT_EQ(request_id(std::string(128, 'a')), std::string(128, 'a'));
}

}  // namespace
}  // namespace tessera::serve::access_log_test
