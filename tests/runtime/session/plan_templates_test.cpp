// Plans that are made from other plans of a program instead of by passes: that they are, and that nothing can tell.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ir/text.h"
#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "runtime/session/session_access.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::runtime::plan_templates_test {
namespace {

using DimSizes = std::map<std::string, std::int64_t>;

std::string bits_of(const NamedValues& values) {
  std::string bits;
  for (const auto& [name, value] : values) {
    const Tensor& tensor = value.tensor();
    bits += name + to_string(tensor.shape());
    bits.append(static_cast<const char*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes()));
  }
  return bits;
}

// What a session makes of the inputs: plan with reasons and results, or its error.
std::string told_by(Session& session, const NamedValues& inputs) {
  try {
    return session.describe_plan(inputs, true) + bits_of(session.run(inputs));
  } catch (const Error& error) {
    return error.what();
  }
}

// Runs all inputs in a session, and each of them in one of its own; returns how many plans needed no passes.
std::int64_t expect_same_plans(const Model& model, const std::vector<NamedValues>& sweep) {
  SessionOptions options;
  options.max_cached_plans = 3;
  Session swept(model, options);
  for (const NamedValues& inputs : sweep) {
    Session fresh(model);
    std::string name;
    for (const auto& [input, value] : inputs) name += input + to_string(value.tensor().shape()) + " ";
    EXPECT_EQ(told_by(swept, inputs), told_by(fresh, inputs)) << name;
  }
  return SessionAccess::plans_from_templates(swept);
}

std::int64_t expect_same_plans(const Model& model, const std::vector<DimSizes>& sweep) {
  std::vector<NamedValues> inputs;
  for (const DimSizes& dims : sweep) inputs.push_back(random_inputs(model.with_dims(dims), 1));
  return expect_same_plans(model, inputs);
}

Tensor test_tensor(Shape shape) {
  Tensor tensor(DType::f32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.mutable_data<float>()[i] = static_cast<float>(i % 7) - 3;
  return tensor;
}

Model net(std::string_view name) {
  return Model(std::make_shared<ir::Graph>(models::build_model(name)));
}

Model parsed(std::string_view text) {
  return Model(std::make_shared<ir::Graph>(ir::parse(text)));
}

std::vector<DimSizes> sizes_of(const std::string& dim, const std::vector<std::int64_t>& sizes) {
  std::vector<DimSizes> sweep;
  for (const std::int64_t size : sizes) sweep.push_back({{"batch", 1}, {dim, size}});
  return sweep;
}

TEST(PlanTemplates, LengthsOfAnEncoderNeedPassesTwice) {
  const std::vector<DimSizes> sweep = sizes_of("seq", {40, 41, 42, 50, 45, 61, 43, 63, 55});
  EXPECT_GE(expect_same_plans(net("bert_mini"), sweep), 5);
}

TEST(PlanTemplates, BatchesAndLengthsInAnyOrder) {
  std::mt19937 random(20261128);
  for (const std::string_view name : {"bert_mini", "masked_lm"}) {
    std::vector<DimSizes> sweep;
    for (int i = 0; i < 24; ++i)
      sweep.push_back({{"batch", std::uniform_int_distribution(1, 4)(random)},
                       {"seq", std::uniform_int_distribution(1, 70)(random)}});
    const Model model = net(name);
    if (name == "masked_lm") {
      for (DimSizes& dims : sweep) dims.erase("seq");
    }
    expect_same_plans(model, sweep);
  }
}

class PlanTemplatesOfNets : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(Nets, PlanTemplatesOfNets,
                         testing::Values("lenet5", "mlp", "cnn_digits", "conv1d", "gru_classifier", "lstm_classifier",
                                         "resnet8", "unet_small", "transformer_small", "masked_lm", "dlrm_small"),
                         [](const auto& tried) { return std::string(tried.param); });

TEST_P(PlanTemplatesOfNets, AreSeenByNobody) {
  const Model model = net(GetParam());
  std::vector<DimSizes> sweep;
  for (const std::int64_t batch : {5, 6, 7, 1, 9, 2, 8, 3, 16, 4, 33, 10}) sweep.push_back({{"batch", batch}});
  expect_same_plans(model, sweep);
}

// A decoder's layer whose cache grows: shapes are computed by nodes, and so is a row that stands for
// the position.
constexpr std::string_view kDecoder = R"(graph "decoder" {
  input %x : f32[1, 1, 8]
  input %past : f32[1, past, 8]
  constant %zero = i64[1] {0}
  constant %one = i64[1] {1}
  constant %two = i64[1] {2}
  constant %scalar = i64[0] {}
  constant %step = i64[] {1}
  constant %row = f32[8] {0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8}
  %shape = Shape (%past)
  %length = Slice (%shape, %one, %two, %zero)
  %total = Add (%length, %one)
  %from = Reshape (%length, %scalar)
  %to = Reshape (%total, %scalar)
  %position = Range (%from, %to, %step)
  %scaled = Cast (%position) {to = 1}
  %lifted = Unsqueeze (%scaled, %zero)
  %tenth = Mul (%lifted, %row)
  %moved = Add (%x, %tenth)
  %keys = Concat (%past, %moved) {axis = 1}
  %turned = Transpose (%keys) {perm = [0, 2, 1]}
  %scores = MatMul (%moved, %turned)
  %weights = Softmax (%scores) {axis = -1}
  %y = MatMul (%weights, %keys)
  output %y, %keys
})";

TEST(PlanTemplates, ACacheThatGrows) {
  std::vector<DimSizes> sweep;
  for (std::int64_t past = 0; past < 40; ++past) sweep.push_back({{"past", past}});
  EXPECT_GE(expect_same_plans(parsed(kDecoder), sweep), 10);
}

// What is folded of a size may be no comparison: parity, quotients, numbers of steps.
TEST(PlanTemplates, ConstantsThatDependOnSizesAreComputedAnew) {
  const Model model = parsed(R"(graph {
    input %x : f32[n, 3]
    constant %zero = i64[1] {0}
    constant %one = i64[1] {1}
    constant %two = i64[1] {2}
    constant %seven = i64[1] {7}
    %shape = Shape (%x)
    %n = Slice (%shape, %zero, %one, %zero)
    %odd = Mod (%n, %two)
    %half = Div (%n, %seven)
    %sum = Add (%odd, %half)
    %number = Cast (%sum) {to = 1}
    %y = Mul (%x, %number)
    %z = Relu (%y)
    output %z
  })");
  std::vector<DimSizes> sweep;
  for (std::int64_t n = 8; n < 48; ++n) sweep.push_back({{"n", n}});
  expect_same_plans(model, sweep);
}

TEST(PlanTemplates, ErrorsAreThoseOfPasses) {
  const Model model = parsed(R"(graph {
    input %x : f32[n, 4]
    input %b : f32[m, 4]
    %y = Add (%x, %b)
    %z = Relu (%y)
    output %z
  })");
  std::vector<NamedValues> sweep;
  const auto add = [&](std::int64_t n, std::int64_t m) {
    sweep.push_back({{"x", Value(test_tensor({n, 4}))}, {"b", Value(test_tensor({m, 4}))}});
  };
  for (std::int64_t n = 10; n < 16; ++n) add(n, n);
  for (std::int64_t n = 10; n < 16; ++n) add(n, 1);
  add(17, 18);
  add(0, 0);
  add(17, 17);
  EXPECT_GE(expect_same_plans(model, sweep), 3);
}

}  // namespace
}  // namespace tessera::runtime::plan_templates_test
