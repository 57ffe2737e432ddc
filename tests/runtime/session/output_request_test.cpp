// Runs that ask for some outputs, in an order, and into memory of the caller's.
#include "runtime/session/output_request.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "ir/text.h"
#include "ops/core/infer.h"
#include "support/expect_error.h"

namespace tessera::test::output_request_test {
namespace {

// sum = x + x, shown twice (its shape changes in "flat"), the input itself, and a branch that fails on its data.
constexpr std::string_view kModel = R"(graph {
  input %x : f32[batch, 2]
  input %i : i64[1]
  constant %minus_one = i64[1] {-1}
  %sum = Add (%x, %x)
  %flat = Reshape (%sum, %minus_one)
  %exp = Exp (%sum)
  %same = Identity (%x)
  %picked = Gather (%x, %i) {axis = 0}
  output %sum, %flat, %exp, %same, %picked
})";

Model model_of(std::string_view text) {
  ir::Graph graph = ir::parse(text);
  ops::infer_graph(graph);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

NamedValues inputs(std::int64_t index = 0) {
  return {{"x", Tensor::from<float>({1, 2}, {1, -2})}, {"i", Tensor::from<std::int64_t>({1}, {index})}};
}

// A view of floats that may be written.
template <std::size_t count>
Tensor memory_of(std::array<float, count>& floats, Shape shape) {
  return Tensor(DType::f32, std::move(shape), floats.data(), nullptr);
}

TEST(OutputRequest, GivesOutputsInTheOrderAsked) {
  for (const char* device : {"cpu", "reference"}) {
    Session session(model_of(kModel), {.device = device});
    const std::vector<Value> outputs = session.run(inputs(), {"flat", "sum"});
    ASSERT_EQ(outputs.size(), 2U);
    EXPECT_TRUE(identical(outputs[0].tensor(), Tensor::from<float>({2}, {2, -4})));
    EXPECT_TRUE(identical(outputs[1].tensor(), Tensor::from<float>({1, 2}, {2, -4})));
    EXPECT_TRUE(session.run(inputs(), std::vector<OutputRequest>{}).empty());
  }
}

TEST(OutputRequest, ComputesOnlyWhatItNeeds) {
  Session session(model_of(kModel));
  // The whole model fails on this index; the other outputs do not depend on it.
  expect_error_containing(ErrorKind::failed, "7", [&] { session.run(inputs(7)); });
  expect_error_containing(ErrorKind::failed, "7", [&] { session.run(inputs(7), {"picked"}); });
  EXPECT_TRUE(identical(session.run(inputs(7), {"sum"})[0].tensor(), Tensor::from<float>({1, 2}, {2, -4})));
  std::vector<StepTiming> all, one;
  session.run(inputs(), {.timings = &all});
  session.run(inputs(), {"same"}, {.timings = &one});
  EXPECT_LT(one.size(), all.size());
}

TEST(OutputRequest, ManySubsetsAreRemembered) {
  Session session(model_of(kModel));
  const std::array names{"sum", "flat", "exp", "same", "picked"};
  for (int round = 0; round < 2; ++round) {
    for (unsigned chosen = 1; chosen < 32; ++chosen) {
      std::vector<OutputRequest> requests;
      for (unsigned i = 0; i < 5; ++i) {
        if (chosen >> i & 1) requests.emplace_back(names[4 - i]);
      }
      const std::vector<Value> outputs = session.run(inputs(), requests);
      const NamedValues expected = session.run(inputs());
      for (std::size_t i = 0; i < requests.size(); ++i)
        EXPECT_TRUE(identical(outputs[i].tensor(), expected.at(requests[i].name).tensor()))
            << requests[i].name << " of " << chosen;
    }
  }
}

TEST(OutputRequest, WritesToTheCallersMemory) {
  for (const char* device : {"cpu", "reference"}) {
    Session session(model_of(kModel), {.device = device});
    std::array<float, 2> sum{}, flat{}, exp{}, same{};
    const std::vector<Value> outputs = session.run(inputs(), {{"exp", memory_of(exp, {1, 2})},
                                                              {"same", memory_of(same, {1, 2})},
                                                              {"flat", memory_of(flat, {2})},
                                                              {"sum", memory_of(sum, {1, 2})},
                                                              "picked"});
    EXPECT_EQ(outputs[0].tensor().raw(), exp.data());
    EXPECT_EQ(outputs[3].tensor().raw(), sum.data());
    EXPECT_FLOAT_EQ(exp[0], std::exp(2.0f));
    EXPECT_EQ(same, (std::array<float, 2>{1, -2}));
    EXPECT_EQ(flat, (std::array<float, 2>{2, -4}));
    EXPECT_EQ(sum, (std::array<float, 2>{2, -4}));
    EXPECT_EQ(outputs[4].tensor().shape(), (Shape{1, 2}));
  }
}

TEST(OutputRequest, AStepWritesToBoundMemoryItself) {
  Session session(model_of("graph { input %x : f32[batch, 65536] %y = Exp (%x) output %y }"));
  Tensor x(DType::f32, {4, 65536}), y(DType::f32, {4, 65536});
  for (float& element : x.mutable_values<float>()) element = 0.5f;
  session.run({{"x", x}}, {{"y", y}});
  session.trim();
  const std::int64_t before = session.memory().results_bytes;
  const std::vector<Value> outputs = session.run({{"x", x}}, {{"y", y}});
  EXPECT_EQ(session.memory().results_bytes, before);  // the result that is kept is the caller's
  EXPECT_TRUE(outputs[0].tensor().shares_storage_with(y));
  EXPECT_FLOAT_EQ(y.data<float>()[4 * 65536 - 1], std::exp(0.5f));
  // A session that has room for one result of its own: while somebody keeps that, it still fills the caller's memory.
  Session small(model_of("graph { input %x : f32[batch, 65536] %y = Exp (%x) output %y }"),
                {.memory_limit_bytes = 3 << 19});
  const NamedValues kept = small.run({{"x", x}});
  expect_error_containing(ErrorKind::over_budget, "limit", [&] { small.run({{"x", x}}); });
  EXPECT_NO_THROW(small.run({{"x", x}}, {{"y", y}}));
}

TEST(OutputRequest, MayWriteOverInputs) {
  Session session(model_of(R"(graph {
    input %a : f32[2]
    input %b : f32[2]
    %sum = Add (%a, %b)
    %first = Identity (%a)
    %second = Identity (%b)
    output %sum, %first, %second
  })"));
  std::array<float, 2> a{1, 2}, b{10, 20};
  // A swap: each output is the other's input, in the other's memory.
  const NamedValues swapped{{"a", memory_of(a, {2})}, {"b", memory_of(b, {2})}};
  const std::vector<Value> outputs =
      session.run(swapped, {{"first", memory_of(b, {2})}, "sum", {"second", memory_of(a, {2})}});
  EXPECT_EQ(a, (std::array<float, 2>{10, 20}));
  EXPECT_EQ(b, (std::array<float, 2>{1, 2}));
  EXPECT_TRUE(identical(outputs[1].tensor(), Tensor::from<float>({2}, {11, 22})));
  session.run({{"a", memory_of(a, {2})}, {"b", memory_of(b, {2})}}, {{"sum", memory_of(a, {2})}});
  EXPECT_EQ(a, (std::array<float, 2>{11, 22}));
}

TEST(OutputRequest, UnalignedMemoryIsFilledAtTheEnd) {
  Session session(model_of(kModel));
  alignas(4) std::array<std::byte, 9> bytes{};
  session.run(inputs(), {{"sum", Tensor(DType::f32, {1, 2}, bytes.data() + 1, nullptr)}});
  std::array<float, 2> sum{};
  std::memcpy(sum.data(), bytes.data() + 1, sizeof sum);
  EXPECT_EQ(sum, (std::array<float, 2>{2, -4}));
}

TEST(OutputRequest, RefusesWhatDoesNotFit) {
  Session session(model_of(kModel));
  std::array<float, 4> floats{};
  std::array<std::int64_t, 2> numbers{};
  const auto refused = [&](const std::string& message, const std::vector<OutputRequest>& requests) {
    expect_error(ErrorKind::invalid_argument, message, [&] { session.run(inputs(), requests); });
  };
  refused("the model has no output 'z'; its outputs are 'sum', 'flat', 'exp', 'same', 'picked'", {"z"});
  refused("output 'sum' is asked for twice", {"sum", "exp", "sum"});
  refused("output 'sum' is f32[1, 2], but is bound to memory of f32[2, 2]", {{"sum", memory_of(floats, {2, 2})}});
  refused("output 'sum' is f32[batch, 2], but is bound to memory of i64[1, 2]",
          {{"sum", Tensor(DType::i64, {1, 2}, numbers.data(), nullptr)}});
  refused("outputs 'sum' and 'exp' are bound to memory that overlaps",
          {{"sum", memory_of(floats, {1, 2})}, {"exp", Tensor(DType::f32, {1, 2}, floats.data() + 1, nullptr)}});
  refused("output 'sum' is bound to a null pointer", {{"sum", Tensor(DType::f32, {1, 2}, nullptr, nullptr)}});
  expect_error(ErrorKind::invalid_argument, "input 'x' is missing; the model's inputs are 'x', 'i'",
               [&] { session.run({{"i", Tensor::from<std::int64_t>({1}, {0})}}, {"sum"}); });
}

TEST(OutputRequest, SizesThatDependOnDataAreCheckedAtTheEnd) {
  Session session(model_of("graph { input %x : f32[n] %at = NonZero (%x) output %at }"));
  const NamedValues x{{"x", Tensor::from<float>({3}, {0, 5, 7})}};
  std::array<std::int64_t, 2> at{};
  session.run(x, {{"at", Tensor(DType::i64, {1, 2}, at.data(), nullptr)}});
  EXPECT_EQ(at, (std::array<std::int64_t, 2>{1, 2}));
  expect_error_containing(ErrorKind::invalid_argument, "output 'at' is i64[1, 2], but is bound to memory of i64[1, 1]",
                          [&] { session.run(x, {{"at", Tensor(DType::i64, {1, 1}, at.data(), nullptr)}}); });
}

TEST(OutputRequest, AModelWithVariablesUpdatesThemWhateverIsAsked) {
  auto graph = std::make_shared<ir::Graph>();
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1}));
  const ir::ValueId total = graph->add_variable("total", Tensor::from<float>({1}, {0}));
  const ir::ValueId next = graph->add_op("Add", {total, x}, {}, "next");
  const ir::ValueId twice = graph->add_op("Add", {x, x}, {}, "twice");
  graph->set_variable_update("total", next);
  graph->add_output(next);
  graph->add_output(twice);
  ops::infer_graph(*graph);
  Session session{Model(graph)};
  for (int i = 0; i < 3; ++i) session.run({{"x", Tensor::from<float>({1}, {2})}}, {"twice"});
  EXPECT_EQ(session.variable("total").data<float>()[0], 6);
}

}  // namespace
}  // namespace tessera::test::output_request_test
