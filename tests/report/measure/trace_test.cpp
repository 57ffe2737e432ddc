#include "report/measure/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/threads/thread_pool.h"
#include "models/models.h"
#include "runtime/session/random_inputs.h"

namespace tessera::test::trace_test {
namespace {

using nlohmann::json;

std::map<std::string, std::vector<json>> by_phase(const std::string& text) {
  std::map<std::string, std::vector<json>> events;
  const json trace = json::parse(text);
  for (const json& event : trace.at("traceEvents")) events[event.at("ph")].push_back(event);
  return events;
}

TEST(Trace, HasTracksOfThreadsAndMemoryOfARealRun) {
  const Model model(std::make_shared<const ir::Graph>(models::build_model("mobilenet_v2", {.dims = {{"batch", 1}}})));
  Session session(model);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  session.run(inputs);
  report::RunTrace trace;
  const NamedValues outputs = report::traced_run(session, inputs, {}, trace);
  EXPECT_EQ(outputs.size(), 1u);
  auto events = by_phase(report::trace_json(trace, "mobilenet_v2"));
  std::map<int, std::string> threads;
  for (const json& event : events["M"]) {
    if (event.at("name") == "thread_name") threads[event.at("tid")] = event.at("args").at("name");
  }
  EXPECT_EQ(threads.at(0), "calling thread");
  std::size_t steps = 0, loops = 0;
  for (const json& event : events["X"]) {
    EXPECT_EQ(threads.count(event.at("tid")), 1u);
    if (event.at("cat") == "parallel loop") {
      ++loops;
      EXPECT_GT(event.at("args").at("chunks"), 0);
      // Every loop ran within a step of the calling thread.
      EXPECT_TRUE(event.at("args").contains("step")) << event;
      continue;
    }
    ++steps;
    EXPECT_EQ(event.at("tid"), 0);
    for (const char* key : {"kernel", "shapes", "operations", "bytes", "GFLOP/s", "GB/s"})
      EXPECT_TRUE(event.at("args").contains(key) || event.at("dur") == 0) << event;
  }
  EXPECT_EQ(steps, trace.steps.size());
  EXPECT_EQ(loops, trace.spans.size());
  if (base::ThreadPool::process().cores() > 1) {
    EXPECT_GT(loops, 10u);
  }
  // A counter at each step of the plan, its end, and the arena at both ends.
  EXPECT_EQ(events["C"].size(), trace.memory.live_bytes.size() + 3);
  std::int64_t most = 0;
  for (const json& event : events["C"]) {
    if (event.at("name") == "arena in use") most = std::max<std::int64_t>(most, event.at("args").at("bytes"));
  }
  EXPECT_GT(most, 0);
  EXPECT_LE(most, trace.memory.arena_bytes);
}

TEST(Trace, LoopsOfThePoolLieOnTracksOfTheirOwn) {
  report::RunTrace trace;
  trace.steps = {{.name = "a", .op = "Conv", .start_ns = 0, .duration_ns = 2000, .operations = 4000, .bytes = 1000},
                 {.name = "in", .op = "Add", .start_ns = 3500, .duration_ns = 500, .depth = 1},
                 {.name = "b", .op = "Loop", .start_ns = 3000, .duration_ns = 2000}};
  trace.origin_ns = 10000;
  trace.spans = {{0, 10100, 11900, 3}, {1, 10200, 11000, 1}, {1, 13600, 13900, 2}, {2, 12500, 12600, 1}};
  trace.memory.live_bytes = {64, 32};
  trace.memory.arena_bytes = 128;
  auto events = by_phase(report::trace_json(trace, "net"));
  std::vector<std::string> tracks;
  for (const json& event : events["X"]) {
    tracks.push_back(event.at("tid").dump() + " " + event.at("name").get<std::string>() + " " + event.at("ts").dump());
  }
  EXPECT_THAT(tracks, testing::ElementsAre("0 Conv a 0.0", "0 Add in 3.5", "0 Loop b 3.0", "0 parallel loop 0.1",
                                           "1 Conv a 0.2", "1 Add in 3.6", "2 parallel loop 2.5"));
  EXPECT_DOUBLE_EQ(events["X"][0].at("args").at("GFLOP/s"), 2);
  EXPECT_DOUBLE_EQ(events["X"][0].at("args").at("GB/s"), 0.5);
  EXPECT_EQ(events["C"].size(), 5u);
}

}  // namespace
}  // namespace tessera::test::trace_test
