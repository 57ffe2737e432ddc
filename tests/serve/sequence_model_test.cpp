#include "serve/core/models/sequence_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "serve/core/models/served_model.h"
#include "support/expect_error.h"
#include "tessera/graph.h"

namespace tessera::serve::sequence_model_test {
namespace {

// all = before ++ x: what a sequence was given so far.
Model collector() {
  NetBuilder net("collector");
  const NetValue before = net.input("before", DType::f32, {"batch", "length"});
  const NetValue x = net.input("x", DType::f32, {"batch", std::int64_t{1}});
  net.output("all", net.add("Concat", {before, x}, {{"axis", std::int64_t{1}}}));
  return net.build();
}

class Sequences {
 public:
  explicit Sequences(const std::string& sequence = "")
      : settings_(parse_model_toml("max_batch_size = 4\n[sequence]\nidle_ms = 60000\n" + sequence +
                                       "\n[sequence.state]\nbefore = { output = \"all\", shape = [0] }\n"
                                       "[labels]\nall = \"unused\"",
                                   "test")) {
    settings_.config.set_name("collector");
    model = std::make_unique<SequenceModel>(
        std::make_shared<ServedModel>(arbiter_, collector(), "1", settings_of_network(settings_), Labels{}),
        settings_.config.sequence_batching(), "/");
  }

  // A request of the sequence; its answer is in the future.
  std::future<Outcome> ask(std::uint64_t id, float x, bool is_start, bool is_end = false, std::int64_t timeout_ns = 0) {
    auto promise = std::make_shared<std::promise<Outcome>>();
    last = std::make_shared<Call>();
    last->arrival_ns = Clock::steady().now_ns();
    last->request.inputs.push_back({"x", DType::f32, {1, 1}, Tensor::from<float>({1, 1}, {x}), {}});
    last->request.sequence = {{id, ""}, is_start, is_end};
    last->request.timeout_ns = timeout_ns;
    last->done = [promise](Outcome outcome) { promise->set_value(std::move(outcome)); };
    EXPECT_TRUE(model->submit(last));
    return promise->get_future();
  }

  std::unique_ptr<SequenceModel> model;
  std::shared_ptr<Call> last;

 private:
  Arbiter arbiter_;
  ModelSettings settings_;
};

std::vector<float> values(std::future<Outcome> future) {
  const Outcome outcome = future.get();
  if (outcome.failure) return {};
  const auto values = outcome.response.outputs.at(0).tensor.values<float>();
  return {values.begin(), values.end()};
}

TEST(SequenceModel, StatesMayGrowFromNothing) {
  Sequences sequences;
  EXPECT_EQ(sequences.model->info().inputs.size(), 1u);
  EXPECT_THAT(values(sequences.ask(1, 5, true)), testing::ElementsAre(5));
  EXPECT_THAT(values(sequences.ask(2, 9, true)), testing::ElementsAre(9));
  EXPECT_THAT(values(sequences.ask(1, 6, false)), testing::ElementsAre(5, 6));
  EXPECT_THAT(values(sequences.ask(1, 7, false, true)), testing::ElementsAre(5, 6, 7));
  EXPECT_FALSE(sequences.model->holds({1, ""}));
  EXPECT_TRUE(sequences.model->holds({2, ""}));
}

TEST(SequenceModel, RequestsThatComeTogetherKeepTheirOrder) {
  Sequences sequences("slots = 2");
  std::vector<std::future<Outcome>> last;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    for (int i = 0; i < 9; ++i) sequences.ask(id, static_cast<float>(i), i == 0);
    last.push_back(sequences.ask(id, 9, false, true));
  }
  for (std::future<Outcome>& each : last)
    EXPECT_THAT(values(std::move(each)), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(sequences.model->statistics().inferences, 50u);
}

TEST(SequenceModel, WhatWaitsForASlotTooLongOrForNobodyIsRefused) {
  Sequences sequences("slots = 1");
  sequences.ask(1, 1, true).get();  // it holds the slot
  const Outcome late = sequences.ask(2, 1, true, false, 30'000'000).get();
  ASSERT_TRUE(late.failure.has_value());
  EXPECT_EQ(late.failure->reason(), Reason::deadline_exceeded);
  EXPECT_FALSE(sequences.model->holds({2, ""}));
  std::future<Outcome> gone = sequences.ask(3, 1, true);
  sequences.last->cancellation.cancel();
  EXPECT_EQ(gone.get().failure->reason(), Reason::cancelled);
  // The slot goes to the one that waits when its sequence ends.
  std::future<Outcome> next = sequences.ask(4, 4, true);
  EXPECT_THAT(values(sequences.ask(1, 2, false, true)), testing::ElementsAre(1, 2));
  EXPECT_THAT(values(std::move(next)), testing::ElementsAre(4));
}

TEST(SequenceModel, DrainsWhileSequencesAreOpenAndOthersWait) {
  Sequences sequences("slots = 1");
  sequences.ask(1, 1, true).get();
  std::future<Outcome> waits = sequences.ask(2, 2, true);
  sequences.model->drain();
  EXPECT_THAT(values(std::move(waits)), testing::ElementsAre(2));
  auto call = std::make_shared<Call>();
  call->request = sequences.last->request;
  EXPECT_FALSE(sequences.model->submit(call));
}

TEST(SequenceModel, AnOldVersionTakesRequestsOfItsSequencesAlone) {
  Sequences sequences;
  sequences.ask(1, 1, true).get();
  sequences.model->refuse_new_sequences();
  EXPECT_THAT(values(sequences.ask(1, 2, false)), testing::ElementsAre(1, 2));
  auto call = std::make_shared<Call>();
  call->request = sequences.last->request;
  call->request.sequence = {{1, ""}, true, false};
  EXPECT_FALSE(sequences.model->submit(call));
  while (sequences.model->open_sequences() > 1) std::this_thread::yield();  // the answer comes before its end
  EXPECT_EQ(sequences.model->open_sequences(), 1);
  sequences.ask(1, 3, false, true).get();
  while (sequences.model->open_sequences() > 0) std::this_thread::yield();
}

TEST(SequenceModel, RulesThatContradictTheModelAreTold) {
  Arbiter arbiter;
  const auto expect = [&](const std::string& rules, const std::string& message) {
    ModelSettings settings = parse_pbtxt("name: \"m\" max_batch_size: 4 sequence_batching { " + rules + " }", "m");
    test::expect_error_containing(ErrorKind::invalid_argument, message, [&] {
      SequenceModel(std::make_shared<ServedModel>(arbiter, collector(), "1", settings_of_network(settings), Labels{}),
                    settings.config.sequence_batching(), "/");
    });
  };
  expect("control_input { name: \"q\" control { kind: CONTROL_SEQUENCE_END } }", "'q', which the model has not");
  expect("control_input { name: \"x\" control { kind: CONTROL_SEQUENCE_CORRID } }", "cannot hold");
  expect("control_input { name: \"x\" }", "0 controls");
  expect("control_input { name: \"x\" control { kind: CONTROL_SEQUENCE_END fp32_false_true: 1 } }", "1 values");
  expect("state { input_name: \"q\" output_name: \"all\" }", "'q' is none of the model's");
  expect("state { input_name: \"before\" output_name: \"q\" }", "'q' is none of the model's");
  expect("state { input_name: \"before\" output_name: \"all\" data_type: TYPE_INT8 }", "is TYPE_INT8");
}

}  // namespace
}  // namespace tessera::serve::sequence_model_test
