#include "ops/recurrent/recurrent_gradient.h"

#include <gtest/gtest.h>

#include "backends/cpu/machine/simd.h"
#include "ops/op_table.h"
#include "ops/recurrent/recurrent.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::backends::cpu::recurrent_gradient_test {
namespace {

struct Sizes {
  std::int64_t length, batch, features, hidden;
  std::string direction = "forward";
  bool bias_and_states = true;
};

Tensor random(const Shape& shape, std::uint64_t seed) {
  return test::random_tensor(DType::f32, shape, seed, -0.3, 0.3);
}

// The layer with its gates kept; `op` is LSTM, GRU or RNN.
test::OpCall forward_of(const std::string& op, const Sizes& s) {
  const std::int64_t directions = s.direction == "bidirectional" ? 2 : 1, gates = op == "LSTM"  ? 4
                                                                                  : op == "GRU" ? 3
                                                                                                : 1;
  test::OpCall call{gates == 1 ? op : "tessera::" + op + "WithGates",
                    {random({s.length, s.batch, s.features}, 1), random({directions, gates * s.hidden, s.features}, 2),
                     random({directions, gates * s.hidden, s.hidden}, 3)},
                    {{"direction", s.direction}, {"hidden_size", s.hidden}},
                    gates == 4   ? 4u
                    : gates == 3 ? 3u
                                 : 2u};
  if (s.bias_and_states) {
    call.inputs.emplace_back(random({directions, 2 * gates * s.hidden}, 4));
    call.inputs.emplace_back();
    call.inputs.emplace_back(random({directions, s.batch, s.hidden}, 5));
    if (gates == 4) call.inputs.emplace_back(random({directions, s.batch, s.hidden}, 6));
  }
  if (gates == 3) call.attributes.emplace("linear_before_reset", std::int64_t{1});
  return call;
}

test::OpCall gradient_of(const std::string& op, const Sizes& s, const ir::Attributes& more, bool last) {
  test::OpCall forward = forward_of(op, s);
  for (const auto& [name, value] : more) forward.attributes[name] = value;
  const std::vector<Value> results = test::run_op(forward, "reference");
  test::OpCall call{"tessera::" + op + "Gradient", forward.inputs, forward.attributes};
  const ops::OpDef& definition = *ops::find_op(call.op);
  const ops::RecurrentGradientInputs inputs = ops::recurrent_gradient_inputs(definition);
  call.inputs.resize(definition.inputs.size());
  call.inputs[inputs.y] = results[0];
  call.inputs[inputs.dy] = random(results[0].tensor().shape(), 7);
  if (last) call.inputs[inputs.dh] = random(results[1].tensor().shape(), 8);
  if (op != "RNN") call.inputs[inputs.gates] = results.back();
  if (op == "LSTM" && last) call.inputs[inputs.dc] = random(results[1].tensor().shape(), 9);
  call.outputs = !s.bias_and_states ? 3 : op == "LSTM" ? 6 : 5;
  return call;
}

void check(const std::string& op, const Sizes& s, const ir::Attributes& more = {}, bool last = true) {
  SCOPED_TRACE(op + " " + s.direction + " hidden " + std::to_string(s.hidden) + " batch " + std::to_string(s.batch) +
               " steps " + std::to_string(s.length));
  test::expect_matches_reference(forward_of(op, s), test::Tolerance::epsilons(DType::f32, 160));
  test::expect_matches_reference(
      gradient_of(op, s, more, last),
      test::Tolerance::epsilons(DType::f32, 60 + 2 * static_cast<double>(s.length * s.batch)));
}

TEST(CpuRecurrentGradient, OddSizesAndDirections) {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    check(op, {5, 1, 3, 7});
    check(op, {4, 3, 6, 33, "reverse"});
    check(op, {6, 2, 5, 16, "bidirectional", false});
    check(op, {1, 4, 2, 5, "bidirectional"});
    check(op, {3, 2, 4, 9}, {}, false);
  }
}

TEST(CpuRecurrentGradient, SeveralChunks) {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) check(op, {3, 2, 4, 530, direction});
  }
}

TEST(CpuRecurrentGradient, ReluInAnRnn) {
  check("RNN", {4, 3, 5, 20}, {{"activations", std::vector<std::string>{"Relu"}}});
}

TEST(CpuRecurrentGradient, LeavesOthersToTheReference) {
  const auto kernel = [](const ir::Attributes& more) {
    return test::chosen_cpu_kernel(gradient_of("GRU", {3, 2, 4, 5}, more, true));
  };
  EXPECT_EQ(kernel({}), "cpu_gru_gradient_f32");
  EXPECT_EQ(kernel({{"linear_before_reset", std::int64_t{0}}}), "reference_gru_gradient");
}

}  // namespace
}  // namespace tessera::backends::cpu::recurrent_gradient_test
