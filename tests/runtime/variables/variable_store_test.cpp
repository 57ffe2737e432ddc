// State that sessions share: names, values, snapshots, and what runs make of it when others read or write it meanwhile.
#include "tessera/variable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "support/expect_error.h"
#include "support/pass_context.h"
#include "tessera/session.h"

namespace tessera::test::variable_store_test {
namespace {

using testing::ElementsAre;

Model model_of(const std::string& text) {
  return Model(std::make_shared<const ir::Graph>(parsed(text)));
}

// w and m grow by g, and what was w before is an output.
Model counting() {
  return model_of(
      "graph { input %g : f32[2] variable %w = f32[2] {1, 2} update %v variable %m = f32[2] {0, 0} update %n "
      "%v = Add (%w, %g) %n = Add (%m, %g) %y = Neg (%g) output %y }");
}
// w as it is.
Model reading() {
  return model_of("graph { variable %w = f32[2] {1, 2} variable %k = f32[1] {7} %y = Neg (%w) output %y }");
}

Tensor pair(float a, float b) {
  return Tensor::from<float>({2}, {a, b});
}
void count(Session& session, float by = 1) {
  session.run({{"g", pair(by, by)}});
}

TEST(VariableStore, SessionsShareValues) {
  const auto store = std::make_shared<VariableStore>();
  Session train(counting(), {.variables = store}), evaluate(reading(), {.variables = store});
  EXPECT_EQ(train.variables(), store);
  EXPECT_THAT(store->names(), ElementsAre("w", "m", "k"));
  count(train);
  EXPECT_TRUE(identical(evaluate.run({}).at("y").tensor(), pair(-2, -3)));
  store->set("w", pair(5, 6));
  EXPECT_TRUE(identical(evaluate.run({}).at("y").tensor(), pair(-5, -6)));
  count(train, 2);
  EXPECT_TRUE(identical(evaluate.variable("w"), pair(7, 8)));
  EXPECT_TRUE(identical(store->get("m"), pair(3, 3)));
  // A session that comes later finds the values as they are.
  Session late(counting(), {.variables = train.variables()});
  count(late);
  EXPECT_TRUE(identical(train.variable("w"), pair(8, 9)));
}

TEST(VariableStore, SessionsHaveStoresOfTheirOwn) {
  const Model model = counting();
  Session one(model), other(model);
  count(one);
  EXPECT_TRUE(identical(other.variable("w"), pair(1, 2)));
  EXPECT_TRUE(identical(one.variable("w"), pair(2, 3)));
}

TEST(VariableStore, RefusesWhatDoesNotFit) {
  const auto store = std::make_shared<VariableStore>();
  Session session(counting(), {.variables = store});
  expect_error(ErrorKind::invalid_argument,
               "variable 'w' is f32[3] in the model, but f32[2] in the store that it is to share", [&] {
                 const Model other =
                     model_of("graph { variable %k = f32[1] {0} variable %w = f32[3] {1, 2, 3} output %w }");
                 Session(other, {.variables = store});
               });
  EXPECT_THAT(store->names(), ElementsAre("w", "m"));  // of a session that failed nothing is added
  expect_error(ErrorKind::invalid_argument, "there is no variable 'x'", [&] { store->get("x"); });
  expect_error(ErrorKind::invalid_argument, "there is no variable 'x'", [&] { store->set("x", pair(0, 0)); });
  expect_error(ErrorKind::invalid_argument, "variable 'w' is f32[2], but i64[1] is given",
               [&] { session.set_variable("w", Tensor::from<std::int64_t>({1}, {0})); });
  expect_error(ErrorKind::invalid_argument, "the snapshot has no variable 'x'",
               [&] { store->snapshot().variable("x"); });
  expect_error(ErrorKind::invalid_argument, "the snapshot is of another store of variables",
               [&] { store->restore(VariableStore().snapshot()); });
}

TEST(VariableStore, ASnapshotStaysAsItWas) {
  Session session(counting());
  VariableStore& store = *session.variables();
  count(session);
  const VariableSnapshot two = store.snapshot();
  EXPECT_THAT(two.names(), ElementsAre("w", "m"));
  const Tensor held = store.snapshot().variable("m");  // holds its value alone
  for (int i = 0; i < 3; ++i) count(session);
  EXPECT_TRUE(identical(two.variable("w"), pair(2, 3)));
  EXPECT_TRUE(identical(held, pair(1, 1)));
  EXPECT_TRUE(identical(store.get("w"), pair(5, 6)));
  store.restore(two);
  EXPECT_TRUE(identical(store.get("w"), pair(2, 3)));
  EXPECT_TRUE(identical(store.get("m"), pair(1, 1)));
  count(session);
  EXPECT_TRUE(identical(store.get("w"), pair(3, 4)));
  EXPECT_TRUE(identical(two.variable("w"), pair(2, 3)));
}

TEST(VariableStore, InitialValuesStayTheModels) {
  const Model model = counting();
  {
    Session session(model);
    count(session);
    count(session);
  }
  EXPECT_TRUE(identical(model.graph().variables()[0].initial, pair(1, 2)));
}

// Bodies read what is captured before it is written over, and give no part of it away.
TEST(VariableStore, BodiesCaptureVariables) {
  const std::string branches =
      "{else_branch = graph { input %s : f32[2] %r = Neg (%s) output %r }, "
      "then_branch = graph { input %t : f32[2] output %t }} ";
  Session session(
      model_of("graph { input %c : bool[] input %g : f32[2] variable %w = f32[2] {1, 2} update %v %v = Add (%w, %g) "
               "%o = If (%c) captures (%w) " +
               branches + "output %o }"));
  const auto run = [&](bool taken) {
    return session.run({{"c", Tensor::scalar(taken)}, {"g", pair(1, 1)}}).at("o").tensor();
  };
  run(true);
  const Tensor second = run(true), third = run(false), fourth = run(true);
  EXPECT_TRUE(identical(second, pair(2, 3)));
  EXPECT_TRUE(identical(third, pair(-3, -4)));
  EXPECT_TRUE(identical(fourth, pair(4, 5)));
  EXPECT_TRUE(identical(session.variable("w"), pair(5, 6)));
}

// --- while a run is held ---

// Calls `action` when the run is about to begin its last step that a gate may hold.
class ActingGate final : public StepGate {
 public:
  explicit ActingGate(std::int64_t step, std::function<void()> action) : step_(step), action_(std::move(action)) {}
  bool may_pass(const StepInfo& info) override {
    largest_ = std::max(largest_, info.index);
    if (info.index != step_ || done_) return true;
    return false;
  }
  void wait(const StepInfo&) override {
    action_();
    done_ = true;
  }
  bool done() const { return done_; }
  std::int64_t largest() const { return largest_; }

 private:
  const std::int64_t step_;
  std::function<void()> action_;
  std::int64_t largest_ = -1;
  bool done_ = false;
};

TEST(VariableStore, IsReadAndWrittenWhileAGateHoldsARun) {
  Session session(counting()), beside(counting(), {.variables = session.variables()});
  VariableStore& store = *session.variables();
  count(session);
  // The steps are Neg and the two sums: at the first of these the run may be held a last time.
  for (const std::int64_t step : {0, 1}) {
    store.set("w", pair(2, 3));
    store.set("m", pair(1, 1));
    ActingGate gate(step, [&] {
      EXPECT_TRUE(identical(store.get("w"), pair(2, 3)));
      EXPECT_TRUE(identical(store.snapshot().variable("m"), pair(1, 1)));
      store.set("w", pair(40, 50));
      EXPECT_TRUE(identical(store.get("w"), pair(40, 50)));
    });
    session.run({{"g", pair(1, 1)}}, {.gate = &gate});
    EXPECT_TRUE(gate.done());
    EXPECT_EQ(gate.largest(), 1);                          // once updates are being written, nobody is asked
    EXPECT_TRUE(identical(store.get("w"), pair(40, 50)));  // as if it had been set after the run
    EXPECT_TRUE(identical(store.get("m"), pair(2, 2)));
  }
}

TEST(VariableStore, RunsThatUpdateTakeTurnsAndReadersPass) {
  const auto store = std::make_shared<VariableStore>();
  Session train(counting(), {.variables = store}), other(counting(), {.variables = store}),
      evaluate(reading(), {.variables = store});
  std::thread second;
  std::atomic<bool> second_done{false};
  ActingGate gate(1, [&] {
    second = std::thread([&] {
      count(other, 10);
      second_done = true;
    });
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(identical(evaluate.run({}).at("y").tensor(), pair(-1, -2)));
    EXPECT_FALSE(second_done.load());
  });
  train.run({{"g", pair(1, 1)}}, {.gate = &gate});
  second.join();
  EXPECT_TRUE(identical(store->get("w"), pair(12, 13)));
}

TEST(VariableStore, ARunThatWaitsForItsTurnCanBeCancelled) {
  const auto store = std::make_shared<VariableStore>();
  Session train(counting(), {.variables = store}), other(counting(), {.variables = store});
  Cancellation cancellation;
  ActingGate gate(1, [&] {
    std::thread second([&] {
      expect_error(ErrorKind::cancelled, "the run was cancelled",
                   [&] { other.run({{"g", pair(10, 10)}}, {.cancellation = &cancellation}); });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancellation.cancel();
    second.join();
  });
  train.run({{"g", pair(1, 1)}}, {.gate = &gate});
  count(other);
  EXPECT_TRUE(identical(store->get("w"), pair(3, 4)));
}

// --- failures ---

TEST(VariableStore, ARunThatIsCancelledBeforeItWritesChangesNothing) {
  Session session(counting());
  count(session);
  for (const std::int64_t step : {0, 1}) {
    Cancellation cancellation;
    ActingGate gate(step, [&] { cancellation.cancel(); });
    expect_error(ErrorKind::cancelled, "the run was cancelled",
                 [&] { session.run({{"g", pair(1, 1)}}, {.cancellation = &cancellation, .gate = &gate}); });
    EXPECT_TRUE(identical(session.variable("w"), pair(2, 3)));
    EXPECT_TRUE(identical(session.variable("m"), pair(1, 1)));
  }
  count(session);
  EXPECT_TRUE(identical(session.variable("w"), pair(3, 4)));
}

TEST(VariableStore, ARunThatFailsBeforeItWritesChangesNothing) {
  Session session(
      model_of("graph { input %i : i64[2] variable %w = f32[2] {1, 2} update %v constant %t = f32[3] {10, 20, 30} "
               "%g = Gather (%t, %i) %v = Add (%w, %g) output %i }"));
  const auto run = [&](std::int64_t index) { session.run({{"i", Tensor::from<std::int64_t>({2}, {0, index})}}); };
  run(1);
  run(1);
  EXPECT_THROW(run(7), Error);
  EXPECT_TRUE(identical(session.variable("w"), pair(21, 42)));
  run(2);
  EXPECT_TRUE(identical(session.variable("w"), pair(31, 72)));
}

// Rows of the next value are looked up behind it, where an index may be out of range.
TEST(VariableStore, NamesWhatARunDamaged) {
  const Model model = model_of(
      "graph { input %g : f32[2] input %i : i64[1] variable %w = f32[2] {1, 2} update %v %v = Add (%w, %g) "
      "%y = Gather (%v, %i) output %y }");
  Session session(model), beside(reading(), {.variables = session.variables()});
  VariableStore& store = *session.variables();
  const auto run = [&](std::int64_t index) {
    session.run({{"g", pair(1, 1)}, {"i", Tensor::from<std::int64_t>({1}, {index})}});
  };
  run(0);
  const VariableSnapshot before = store.snapshot();
  run(1);  // to memory of its own: the snapshot holds the first
  expect_error_containing(ErrorKind::failed, "a run that had begun to write variables 'w'", [&] { run(9); });
  const std::string refused = "a failed run damaged the variables 'w'";
  expect_error_containing(ErrorKind::failed, refused, [&] { run(0); });
  expect_error_containing(ErrorKind::failed, refused, [&] { beside.run({}); });
  expect_error_containing(ErrorKind::failed, refused, [&] { store.snapshot(); });
  expect_error(ErrorKind::failed, "a failed run damaged variable 'w': set it first", [&] { store.get("w"); });
  store.set("w", pair(5, 5));
  run(0);
  EXPECT_TRUE(identical(store.get("w"), pair(6, 6)));
  expect_error_containing(ErrorKind::failed, "are damaged", [&] { run(9); });
  store.restore(before);
  EXPECT_TRUE(identical(store.get("w"), pair(2, 3)));
  // While a snapshot holds the value, a failed run damages nothing.
  EXPECT_THROW(run(9), Error);
  EXPECT_TRUE(identical(store.get("w"), pair(2, 3)));
}

// --- threads ---

// Two variables that are equal after every run, of elements that are equal.
TEST(VariableStore, TrainsBesideEvaluation) {
  const auto model = [&](const std::string& rest) {
    ir::Graph made;
    const ir::ValueId g = made.add_input("g", ir::ValueType::tensor(DType::f32, ir::Dims{20000}));
    Tensor zeros(DType::f32, {20000});
    std::ranges::fill(zeros.mutable_values<float>(), 0.0f);
    const ir::ValueId w = made.add_variable("w", zeros), m = made.add_variable("m", zeros);
    const bool trains = rest == "train";
    const ir::ValueId next_w = made.add_op("Add", {w, g}), next_m = made.add_op("Add", {m, g});
    if (trains) {
      made.set_variable_update("w", next_w);
      made.set_variable_update("m", next_m);
    }
    made.add_output(trains ? g : made.add_op("Sub", {w, m}, {}, "difference"));
    if (!trains) made.add_output(w);
    made.remove_dead_and_compact();
    return Model(std::make_shared<const ir::Graph>(std::move(made)));
  };
  const auto store = std::make_shared<VariableStore>();
  Session train(model("train"), {.variables = store}), evaluate(model("evaluate"), {.variables = store});
  Tensor ones(DType::f32, {20000});
  std::ranges::fill(ones.mutable_values<float>(), 1.0f);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, looked{0};
  const auto is_one_number = [](const Tensor& tensor) {
    return std::ranges::all_of(tensor.values<float>(), [&](float each) { return each == tensor.data<float>()[0]; });
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        const NamedValues found = evaluate.run({{"g", ones}});
        const Tensor difference = found.at("difference").tensor();
        wrong +=
            !is_one_number(difference) || difference.data<float>()[0] != 0 || !is_one_number(found.at("w").tensor());
        ++looked;
      }
    });
    threads.emplace_back([&] {
      while (!stop) {
        const VariableSnapshot snapshot = store->snapshot();
        const Tensor w = snapshot.variable("w"), m = snapshot.variable("m");
        wrong += !is_one_number(w) || !identical(w, m) || !is_one_number(store->get("m"));
        ++looked;
      }
    });
  }
  threads.emplace_back([&] {
    Session second(model("train"), {.variables = store});
    for (int i = 0; i < 150; ++i) second.run({{"g", ones}});
  });
  for (int i = 0; i < 150 || looked < 200; ++i) {
    train.run({{"g", ones}});
    if (i > 150) store->restore(store->snapshot());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GE(store->get("w").data<float>()[0], 300 - 150);
}

}  // namespace
}  // namespace tessera::test::variable_store_test
