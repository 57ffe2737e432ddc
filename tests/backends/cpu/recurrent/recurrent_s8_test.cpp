// DynamicQuantizeLSTM of the CPU against its decomposition on the reference device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/machine/simd.h"
#include "ir/graph.h"
#include "ops/core/builder.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::backends::cpu::recurrent_s8_test {
namespace {

using test::random_tensor;

struct Sizes {
  std::int64_t length, batch, features, hidden;
  std::string direction = "forward";
  DType type = DType::i8;
  bool by_row = false;  // scales and zero points of each row, not of each direction
  bool bias_and_states = true;
  bool peepholes = false;
  ir::Attributes more = {};
};

Model model_of(const Sizes& s) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const std::int64_t directions = s.direction == "bidirectional" ? 2 : 1, rows = 4 * s.hidden;
  std::uint64_t seed = 1;
  const auto constant = [&](const Shape& shape, double low, double high) {
    return builder.constant(random_tensor(DType::f32, shape, ++seed, low, high));
  };
  const auto bytes = [&](const Shape& shape, double low, double high) {
    const double shift = s.type == DType::u8 ? 128 : 0;
    return builder.constant(random_tensor(s.type, shape, ++seed, low + shift, high + shift));
  };
  const Shape by = s.by_row ? Shape{directions, rows} : Shape{directions};
  std::vector<ir::ValueId> inputs{
      graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{s.length, s.batch, s.features})),
      bytes({directions, s.features, rows}, -100, 100), bytes({directions, s.hidden, rows}, -100, 100)};
  inputs.resize(8);
  if (s.bias_and_states) {
    inputs[3] = constant({directions, 2 * rows}, -0.3, 0.3);
    inputs[5] = constant({directions, s.batch, s.hidden}, -0.5, 0.5);
    inputs[6] = constant({directions, s.batch, s.hidden}, -0.5, 0.5);
  }
  if (s.peepholes) inputs[7] = constant({directions, 3 * s.hidden}, -0.3, 0.3);
  for (int side = 0; side < 2; ++side) {
    inputs.push_back(constant(by, 0.001, 0.004));
    inputs.push_back(bytes(by, s.by_row ? -9 : 0, s.by_row ? 9 : 0));
  }
  ir::Attributes attributes = s.more;
  attributes["hidden_size"] = s.hidden;
  attributes["direction"] = s.direction;
  const auto made = builder.add_multi("com.microsoft::DynamicQuantizeLSTM", inputs, 3, attributes);
  for (std::size_t i = 0; i < 3; ++i) {
    graph->value(made[i]).name = fmt::format("y{}", i);
    graph->add_output(made[i]);
  }
  return Model(graph);
}

// Equal but for rounding: where a state is nearly between two bytes, rounding decides which one it becomes.
void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double error = std::abs(static_cast<double>(a.data<float>()[i]) - static_cast<double>(b.data<float>()[i]));
    ASSERT_LT(error, 0.02) << i;
    sum += error;
  }
  EXPECT_LT(sum, 3e-4 * static_cast<double>(a.elements()));
}

void check(const Sizes& s) {
  SCOPED_TRACE(fmt::format("{} {} {} {} {}", s.length, s.batch, s.features, s.hidden, s.direction));
  const Model model = model_of(s);
  const NamedValues inputs{{"x", random_tensor(DType::f32, {s.length, s.batch, s.features}, 99, -1.0, 2.0)}};
  const NamedValues expected = Session(model, {.device = "reference"}).run(inputs);
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa, Extensions::vectors);
    Session session(model);
    EXPECT_NE(session.describe_plan(inputs).find("cpu_dynamic_quantize_lstm"), std::string::npos);
    const NamedValues found = session.run(inputs);
    for (const auto& [name, value] : expected) expect_equal(found.at(name).tensor(), value.tensor());
  }
}

TEST(RecurrentS8, AgreesWithItsDecomposition) {
  check({1, 1, 1, 1});
  check({5, 1, 17, 24});
  check({4, 3, 16, 33, "reverse", DType::u8});
  check({7, 2, 13, 48, "bidirectional", DType::i8, true});
  check({3, 5, 8, 31, "bidirectional", DType::u8, true, false});
  check({6, 1, 40, 320, "forward", DType::i8});  // several chunks
  check({3, 14, 24, 320, "bidirectional", DType::u8, true});
}

TEST(RecurrentS8, TakesWhatLSTMTakes) {
  check({4, 2, 9, 20, "forward", DType::i8, false, true, true});
  check({4, 2, 9, 20, "forward", DType::u8, false, true, false, {{"input_forget", std::int64_t{1}}}});
}

TEST(RecurrentS8, LeavesOtherLayersToTheDecomposition) {
  const auto leave = [](const Model& model) {
    const NamedValues inputs{{"x", random_tensor(DType::f32, {4, 2, 6}, 99, -1.0, 2.0)}};
    Session session(model);
    EXPECT_EQ(session.describe_plan(inputs).find("cpu_dynamic_quantize_lstm"), std::string::npos);
    const NamedValues found = session.run(inputs), expected = Session(model, {.device = "reference"}).run(inputs);
    for (const auto& [name, value] : expected) expect_equal(found.at(name).tensor(), value.tensor());
  };
  auto graph = std::make_shared<ir::Graph>(model_of({4, 2, 6, 8}).graph());
  graph->node(graph->order()[0]).inputs[4] = graph->add_constant(Tensor::from<std::int32_t>({2}, {4, 2}));
  leave(Model(graph));
  leave(model_of({4, 2, 6, 8, "forward", DType::i8, false, true, false, {{"clip", 0.4f}}}));
}

}  // namespace
}  // namespace tessera::backends::cpu::recurrent_s8_test
