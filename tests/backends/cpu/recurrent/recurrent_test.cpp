#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/machine/large_operands.h"
#include "backends/cpu/machine/simd.h"
#include "base/numbers/half.h"
#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::recurrent_test {
namespace {

struct Sizes {
  std::int64_t length, batch, features, hidden;
  std::string direction = "forward";
  bool bias_and_states = true;
  std::size_t outputs = 3;  // of LSTM; GRU has no third
  bool ends = false;        // sequences of lengths of their own, from none to all of the steps
};

test::OpCall call_of(const std::string& op, const Sizes& s, DType type) {
  const std::int64_t directions = s.direction == "bidirectional" ? 2 : 1, gates = op == "LSTM"  ? 4
                                                                                  : op == "GRU" ? 3
                                                                                                : 1;
  const auto random = [type](Shape shape, std::uint64_t seed) {
    return test::random_tensor(type, shape, seed, -0.3, 0.3);
  };
  test::OpCall call{op,
                    {random({s.length, s.batch, s.features}, 1), random({directions, gates * s.hidden, s.features}, 2),
                     random({directions, gates * s.hidden, s.hidden}, 3)},
                    {{"direction", s.direction}, {"hidden_size", s.hidden}},
                    std::min<std::size_t>(s.outputs, op == "LSTM" ? 3u : 2u)};
  if (s.bias_and_states) {
    call.inputs.emplace_back(random({directions, 2 * gates * s.hidden}, 4));
    call.inputs.emplace_back();
    if (s.ends) {
      std::vector<std::int32_t> lengths;
      for (std::int64_t b = 0; b < s.batch; ++b)
        lengths.push_back(static_cast<std::int32_t>((b * 3 + s.length) % (s.length + 1)));
      call.inputs.back() = Tensor::from<std::int32_t>({s.batch}, std::span<const std::int32_t>(lengths));
    }
    call.inputs.emplace_back(random({directions, s.batch, s.hidden}, 5));
    if (op == "LSTM") call.inputs.emplace_back(random({directions, s.batch, s.hidden}, 6));
  }
  if (op == "GRU") call.attributes.emplace("linear_before_reset", std::int64_t{1});
  return call;
}

void check(const test::OpCall& call, DType type, test::Tolerance tolerance) {
  const std::vector<Value> expected = test::run_op(call, "reference");
  for (const Extensions extensions : kAllExtensions) {
    if (extensions != Extensions::vectors && type == DType::f32) continue;  // it has no use for them
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const ScopedIsa scoped(isa, extensions);
      const std::vector<Value> one = test::run_op(call, "cpu", 1);
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(test::close_to(one[i].tensor(), expected[i].tensor(), tolerance))
            << "output " << i << " isa " << static_cast<int>(isa);
      }
      for (const int threads : {2, 3}) {
        const std::vector<Value> several = test::run_op(call, "cpu", threads);
        for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(identical(several[i].tensor(), one[i].tensor()));
      }
    }
  }
}

void check(const std::string& op, const Sizes& s, DType type, test::Tolerance tolerance) {
  SCOPED_TRACE(op + " " + s.direction + " hidden " + std::to_string(s.hidden) + " batch " + std::to_string(s.batch) +
               " steps " + std::to_string(s.length));
  check(call_of(op, s, type), type, tolerance);
}

// A variant of a layer, which must find a fast kernel.
void check_variant(const test::OpCall& call, DType type = DType::f32) {
  EXPECT_EQ(test::chosen_cpu_kernel(call).rfind("cpu_", 0), 0u) << call.op;
  check(call, type, test::Tolerance::epsilons(type, type == DType::f32 ? 60 : 4));
}

void check(const std::string& op, const Sizes& s) {
  check(op, s, DType::f32, test::Tolerance::epsilons(DType::f32, 40));
}

// One step is that of the reference but for the rounding of its results. From step to step the hidden state is rounded,
// which the reference does not do.
void check_bf16(const std::string& op, const Sizes& s) {
  const test::OpCall call = call_of(op, s, DType::bf16);
  EXPECT_EQ(test::chosen_cpu_kernel(call), op == "LSTM" ? "cpu_bf16_lstm" : "cpu_bf16_gru");
  check(op, s, DType::bf16, test::Tolerance::epsilons(DType::bf16, s.length == 1 ? 1 : 4));
}

TEST(CpuRecurrent, OddSizesAndDirections) {
  for (const std::string op : {"LSTM", "GRU"}) {
    check(op, {5, 1, 3, 7});
    check(op, {4, 3, 6, 33, "reverse"});
    check(op, {6, 2, 5, 16, "bidirectional", false});
  }
}

TEST(CpuRecurrent, SeveralChunks) {
  for (const std::string op : {"LSTM", "GRU"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) check(op, {4, 2, 4, 200, direction});
  }
}

TEST(CpuRecurrent, SequencesThatEndEarly) {
  for (const std::string op : {"LSTM", "GRU"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      for (const std::int64_t hidden : {7, 200}) {
        const Sizes sizes{5, 4, 3, hidden, direction, true, 3, true};
        EXPECT_EQ(test::chosen_cpu_kernel(call_of(op, sizes, DType::f32)),
                  op == "LSTM" ? "cpu_lstm_f32" : "cpu_gru_f32");
        check(op, sizes);
      }
    }
  }
}

TEST(CpuRecurrent, RefusesLengthsOutsideTheSteps) {
  for (const std::int32_t length : {-1, 6}) {
    test::OpCall call = call_of("GRU", {5, 1, 3, 7}, DType::f32);
    call.inputs[4] = Tensor::from<std::int32_t>({1}, {length});
    test::expect_error(ErrorKind::failed, fmt::format("sequence length {} is outside [0, 5]", length),
                       [&] { test::run_op(call, "cpu", 1); });
  }
}

std::vector<Sizes> variant_sizes() {
  return {{5, 1, 3, 7},
          {4, 3, 6, 33, "reverse"},
          {6, 2, 5, 16, "bidirectional", false},
          {3, 2, 4, 300, "bidirectional"},
          {5, 4, 3, 35, "bidirectional", true, 3, true},
          {4, 3, 3, 290, "reverse", true, 3, true}};
}

// The batch first in X, Y and the states.
test::OpCall batch_first(test::OpCall call) {
  const auto swap = [&](std::size_t input) {
    if (input >= call.inputs.size() || call.inputs[input].kind() == Value::Kind::none) return;
    call.inputs[input] = test::run_op_tensor(
        {"Transpose", {call.inputs[input]}, {{"perm", ir::Attribute(std::vector<std::int64_t>{1, 0, 2})}}});
  };
  for (const std::size_t input : {0, 5}) swap(input);
  if (call.op == "LSTM") swap(6);
  call.attributes["layout"] = std::int64_t{1};
  return call;
}

TEST(CpuRecurrent, ResetGateBeforeTheProduct) {
  for (const Sizes& sizes : variant_sizes()) {
    test::OpCall call = call_of("GRU", sizes, DType::f32);
    call.attributes["linear_before_reset"] = std::int64_t{0};
    check_variant(call);
    check_variant(batch_first(call));
  }
}

TEST(CpuRecurrent, BatchFirst) {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    for (const Sizes& sizes : variant_sizes()) check_variant(batch_first(call_of(op, sizes, DType::f32)));
  }
  for (const std::string op : {"LSTM", "GRU"})
    check_variant(batch_first(call_of(op, variant_sizes()[4], DType::bf16)), DType::bf16);
}

TEST(CpuRecurrent, Peepholes) {
  for (const Sizes& sizes : variant_sizes()) {
    test::OpCall call = call_of("LSTM", sizes, DType::f32);
    call.inputs.resize(8);
    const std::int64_t directions = sizes.direction == "bidirectional" ? 2 : 1;
    call.inputs[7] = test::random_tensor(DType::f32, {directions, 3 * sizes.hidden}, 9, -1, 1);
    check_variant(call);
    call.attributes["input_forget"] = std::int64_t{1};
    call.attributes["clip"] = 0.2f;
    check_variant(call);
    check_variant(batch_first(call));
  }
}

TEST(CpuRecurrent, ActivationsAndClip) {
  for (const std::string name : {"Affine", "Relu", "LeakyRelu", "ThresholdedRelu", "Tanh", "Sigmoid", "HardSigmoid",
                                 "ScaledTanh", "Elu", "Softsign", "Softplus"}) {
    for (const std::string op : {"LSTM", "GRU", "RNN"}) {
      test::OpCall call = call_of(op, {4, 2, 3, 19, "bidirectional"}, DType::f32);
      const std::size_t count = op == "LSTM" ? 6 : op == "GRU" ? 4 : 2;
      std::vector<std::string> names(count, name);
      names.back() = "Tanh";
      call.attributes["activations"] = names;
      SCOPED_TRACE(op + " " + name);
      check_variant(call);
      call.attributes["activation_alpha"] = std::vector<float>{0.3f, 0.9f, 0.1f};
      call.attributes["activation_beta"] = std::vector<float>{0.6f, 0.2f, -0.1f};
      call.attributes["clip"] = 0.25f;
      check_variant(call);
      if (op != "GRU") continue;
      call.attributes["linear_before_reset"] = std::int64_t{0};
      check_variant(call);
    }
  }
}

TEST(CpuRecurrent, KeepsWhatIsNoNumber) {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    test::OpCall call = call_of(op, {4, 2, 3, 19}, DType::f32);
    std::vector<float> x(4 * 2 * 3, 0.5f);
    x[3] = std::nanf("");
    x[12] = HUGE_VALF;
    x[14] = -HUGE_VALF;
    call.inputs[0] = Tensor::from<float>({4, 2, 3}, std::span<const float>(x));
    check_variant(call);
    if (op == "RNN") call.attributes["activations"] = std::vector<std::string>{"Relu"};
    call.attributes["clip"] = 3.0f;
    if (op == "GRU") call.attributes["linear_before_reset"] = std::int64_t{0};
    check_variant(call);
  }
}

TEST(CpuBf16Recurrent, SequencesThatEndEarly) {
  for (const std::string op : {"LSTM", "GRU"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"})
      check_bf16(op, {5, 4, 3, 33, direction, true, 3, true});
  }
}

TEST(CpuBf16Recurrent, OneStep) {
  for (const std::string op : {"LSTM", "GRU"}) {
    for (const std::int64_t hidden : {1, 7, 33, 100}) {
      for (const std::int64_t batch : {1, 2, 5, 12, 13, 20})
        check_bf16(op, {1, batch, 5, hidden, batch % 2 == 0 ? "reverse" : "forward", batch != 5});
    }
  }
}

TEST(CpuBf16Recurrent, OddSizesAndDirections) {
  for (const std::string op : {"LSTM", "GRU"}) {
    check_bf16(op, {5, 1, 3, 7});
    check_bf16(op, {4, 3, 6, 33, "reverse"});
    check_bf16(op, {6, 2, 5, 16, "bidirectional", false});
    check_bf16(op, {6, 20, 1, 1, "bidirectional"});
    check_bf16(op, {7, 14, 64, 100, "bidirectional", true, 1});
    check_bf16(op, {3, 4, 33, 31, "forward", false, 2});
  }
}

TEST(CpuBf16Recurrent, SeveralChunks) {
  for (const std::string op : {"LSTM", "GRU"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"})
      check_bf16(op, {4, 2, 4, 301, direction});
    check_bf16(op, {1, 20, 40, 200, "bidirectional"});
  }
}

// Data and weights of the product for all steps that are read in parts of the depth, and rows in several blocks.
TEST(CpuBf16Recurrent, DeepProductsInParts) {
  const ScopedLargeOperands small(0);
  for (const std::string op : {"LSTM", "GRU"}) check_bf16(op, {1, 400, 1101, 5});
}

// What R meets is the hidden state in bfloat16: a step of weights that make it large shows the rounding.
TEST(CpuBf16Recurrent, StepsMultiplyTheRoundedState) {
  // One unit without input: c1 = s(6) c0 + s(6) tanh(0), h1 = s(6) tanh(c1), and the candidate of the second step is
  // tanh(8 h1).
  const auto bf16 = [](Shape shape, std::vector<float> values) {
    std::vector<bf16_t> rounded;
    for (const float value : values) rounded.push_back(base::to_bf16(value));
    return Tensor::from<bf16_t>(std::move(shape), std::span<const bf16_t>(rounded));
  };
  test::OpCall call{"LSTM",
                    {bf16({2, 1, 1}, {0, 0}),
                     bf16({1, 4, 1}, {0, 0, 0, 0}),
                     bf16({1, 4, 1}, {0, 0, 0, 8}),
                     bf16({1, 8}, {6, 6, 6, 0, 0, 0, 0, 0}),
                     {},
                     {},
                     bf16({1, 1, 1}, {0.1f})},
                    {{"hidden_size", std::int64_t{1}}},
                    3};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double open = sigmoid(6), c1 = open * base::to_float(base::to_bf16(0.1f)), h1 = open * std::tanh(c1),
               carried = base::to_float(base::to_bf16(static_cast<float>(h1)));
  const double c2 = open * c1 + open * std::tanh(8 * carried), h2 = open * std::tanh(c2);
  const std::vector<Value> got = test::run_op(call, "cpu", 1);
  EXPECT_TRUE(identical(got[0].tensor(), bf16({2, 1, 1, 1}, {static_cast<float>(h1), static_cast<float>(h2)})));
  EXPECT_TRUE(identical(got[2].tensor(), bf16({1, 1, 1}, {static_cast<float>(c2)})));
}

}  // namespace
}  // namespace tessera::backends::cpu::recurrent_test
