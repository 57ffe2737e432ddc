// Chains of convolutions by bands of lines, in float32, in bfloat16 and in both: the same bits as the convolutions one
// after the other, for every instruction set and any number of threads, and what the reference gives.
#include "ops/convolutions/conv_chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backends/cpu/machine/simd.h"
#include "ops/op_table.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"

namespace tessera::backends::cpu::conv_chain_test {
namespace {

using ops::ConvStage;
using test::random_tensor;

// A chain as it is built: the node's inputs are known last, so values count from the stages on.
struct Chain {
  std::vector<Tensor> inputs;
  std::vector<ConvStage> stages;  // operand -2 - i: the result of stage i
  std::vector<Shape> shapes;      // of results
  std::vector<DType> types;

  std::int64_t add(Tensor input) {
    inputs.push_back(std::move(input));
    return static_cast<std::int64_t>(inputs.size()) - 1;
  }
  // The stage as a call of its own, of `results` before it.
  test::OpCall call_of(const ConvStage& stage, const std::vector<Tensor>& results) const {
    const auto list = [](const auto& values) { return std::vector<std::int64_t>(values.begin(), values.end()); };
    test::OpCall call{"tessera::ChannelsLastConv",
                      {},
                      {{"strides", list(stage.strides)},
                       {"pads", list(stage.pads)},
                       {"dilations", list(stage.dilations)},
                       {"group", stage.group}}};
    if (!stage.activation.empty()) call.attributes["activation"] = stage.activation;
    if (!stage.precision.empty()) call.attributes["precision"] = stage.precision;
    if (stage.output_dtype != 0) call.attributes["output_dtype"] = stage.output_dtype;
    if (stage.activation == "Clip")
      call.attributes["activation_params"] = std::vector<float>(stage.parameters.begin(), stage.parameters.end());
    for (const std::int64_t operand : stage.operands) {
      if (operand == -1) call.inputs.emplace_back();
      else
        call.inputs.emplace_back(operand >= 0 ? inputs[static_cast<std::size_t>(operand)]
                                              : results[static_cast<std::size_t>(-2 - operand)]);
    }
    return call;
  }
  test::OpCall call() const {
    std::vector<ConvStage> numbered = stages;
    for (ConvStage& stage : numbered) {
      for (std::int64_t& operand : stage.operands)
        operand = operand < -1 ? static_cast<std::int64_t>(inputs.size()) - 2 - operand : operand;
    }
    return {"tessera::ConvChain", {inputs.begin(), inputs.end()}, ops::conv_chain_attributes(numbered)};
  }
};

Tensor one_after_the_other(const Chain& chain) {
  std::vector<Tensor> results;
  for (const ConvStage& stage : chain.stages) {
    const test::OpCall call = chain.call_of(stage, results);
    EXPECT_EQ(test::chosen_cpu_kernel(call).find("winograd"), std::string::npos);
    results.push_back(test::run_op_tensor(call, "cpu", 1));
  }
  return results.back();
}

void check(const Chain& chain) {
  const test::OpCall call = chain.call();
  const bool rounds =
      std::ranges::any_of(chain.stages, [](const ConvStage& stage) { return !stage.precision.empty(); });
  for (const Extensions extensions : kAllExtensions) {
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      if (extensions != Extensions::vectors && !rounds) continue;  // float32 has no such instructions
      const ScopedIsa scoped(isa, extensions);
      ASSERT_EQ(test::chosen_cpu_kernel(call), "cpu_conv_chain");
      const Tensor expected = one_after_the_other(chain);
      for (const int threads : {1, 2, 3})
        EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), expected))
            << threads << " threads, isa " << static_cast<int>(isa) << ", extensions " << static_cast<int>(extensions);
    }
  }
}

// Which stages of random chains round; those that do may store their results rounded.
enum class Rounding : std::uint8_t { none, some, all };

class Maker {
 public:
  explicit Maker(std::uint32_t seed, Rounding rounding = Rounding::none)
      : seed_(seed), rounding_(rounding), random_(seed) {}

  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(high - low + 1));
  }
  Tensor tensor(const Shape& shape, double bound = 1, DType type = DType::f32) {
    return random_tensor(type, shape, seed_ * 100 + ++made_, -bound, bound);
  }

  Chain chain() {
    Chain chain;
    Shape x{number(1, 3), number(1, 30), number(1, 30), number(1, 20)};
    DType type = may_be_rounded();
    std::int64_t data = chain.add(tensor(x, 1, type));
    for (std::int64_t i = 0, count = number(2, 6); i < count; ++i) {
      add_stage(chain, data, x, type);
      data = -2 - i;
      x = chain.shapes.back();
      type = chain.types.back();
    }
    return chain;
  }

 private:
  DType may_be_rounded() { return rounding_ != Rounding::none && number(0, 2) > 0 ? DType::bf16 : DType::f32; }

  void add_stage(Chain& chain, std::int64_t data, const Shape& x, DType type) {
    std::int64_t kind = number(0, 3);
    const std::int64_t channels = x[3];
    // What is stored rounded only such stages read; depthwise ones no other data.
    const bool rounds = type == DType::bf16 || rounding_ == Rounding::all ||
                        (rounding_ == Rounding::some && number(0, 2) == 0 && kind != 1);
    if (rounds && type == DType::f32 && kind == 1) kind = 2;
    std::int64_t outputs = number(1, 40);
    ConvStage stage{.operands = {data, -1, -1, -1}};
    std::array<std::int64_t, 2> kernel{1, 1};
    if (kind > 0) {
      for (std::size_t axis = 0; axis < 2; ++axis) {
        // No 3×3, which other kernels would take.
        kernel[axis] = kind == 1 ? number(1, 5) : axis == 0 ? number(1, 3) : 2;
        stage.strides[axis] = number(1, 3) == 3 ? 2 : 1;
        stage.dilations[axis] = number(1, 4) == 4 ? 2 : 1;
        const std::int64_t extent = (kernel[axis] - 1) * stage.dilations[axis] + 1;
        stage.pads[axis] = number(0, extent - 1);
        stage.pads[axis + 2] = std::max(number(0, extent), extent - x[axis + 1] - stage.pads[axis]);
      }
    }
    if (kind == 1) stage.group = outputs = channels;
    if (kind == 3 && channels % 2 == 0) stage.group = 2, outputs = 2 * number(8, 20);
    const std::int64_t terms = channels / stage.group * kernel[0] * kernel[1];
    stage.operands[1] = chain.add(
        tensor({outputs, channels / stage.group, kernel[0], kernel[1]}, std::sqrt(3.0 / static_cast<double>(terms))));
    if (number(0, 2) > 0) stage.operands[2] = chain.add(tensor({outputs}));
    Shape y{x[0], 0, 0, outputs};
    for (std::size_t axis = 0; axis < 2; ++axis)
      y[axis + 1] =
          (x[axis + 1] + stage.pads[axis] + stage.pads[axis + 2] - (kernel[axis] - 1) * stage.dilations[axis] - 1) /
              stage.strides[axis] +
          1;
    if (rounds) stage.precision = "bf16";
    add_addend(chain, stage, y);
    chain.types.push_back(rounds ? may_be_rounded() : DType::f32);
    if (chain.types.back() == DType::bf16) stage.output_dtype = static_cast<std::int64_t>(DType::bf16);
    const char* const activations[] = {"", "Relu", "Clip", "Gelu", "HardSwish"};
    stage.activation = activations[number(0, 4)];
    if (stage.activation == "Clip") stage.parameters = {-0.5f, 0.75f};
    chain.stages.push_back(stage);
    chain.shapes.push_back(y);
  }

  // A tensor, or a result before it of the same shape, with no strides in between.
  void add_addend(Chain& chain, ConvStage& stage, const Shape& y) {
    auto first = chain.shapes.end();
    for (std::size_t i = chain.stages.size(); i > 0 && stage.strides[0] == 1; --i) {
      --first;
      if (chain.stages[i - 1].strides[0] != 1) break;
    }
    const auto found = std::find(first, chain.shapes.end(), y);
    const bool takes =
        found != chain.shapes.end() &&
        (!stage.precision.empty() || chain.types[static_cast<std::size_t>(found - chain.shapes.begin())] == DType::f32);
    if (takes && number(0, 3) > 0) stage.operands[3] = -2 - (found - chain.shapes.begin());
    else if (number(0, 3) == 0)
      stage.operands[3] = chain.add(tensor(y, 1, stage.precision.empty() ? DType::f32 : may_be_rounded()));
  }

  std::uint32_t seed_;
  Rounding rounding_;
  std::mt19937 random_;
  std::uint64_t made_ = 0;
};

TEST(CpuConvChain, GivesTheBitsOfTheConvolutionsOneAfterTheOther) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    check(Maker(seed).chain());
  }
}

TEST(CpuConvChain, RoundedStagesGiveTheBitsOfTheConvolutionsOneAfterTheOther) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    check(Maker(seed, seed % 2 == 0 ? Rounding::all : Rounding::some).chain());
  }
}

// All stages round, and store their results rounded but for the last.
Chain rounded(Chain chain) {
  for (ConvStage& stage : chain.stages)
    stage.precision = "bf16", stage.output_dtype = static_cast<std::int64_t>(DType::bf16);
  chain.stages.back().output_dtype = 0;
  return chain;
}

// Blocks that widen, look at 3×3 or 5×5 pixels of each channel, narrow again and add their input.
Chain block(const Shape& x, std::int64_t wide, std::int64_t kernel, std::int64_t stride, int blocks = 1,
            DType type = DType::f32) {
  Chain chain;
  std::int64_t data = chain.add(random_tensor(type, x, 1));
  std::uint64_t seed = 2;
  const auto made = [&](const Shape& shape) { return chain.add(random_tensor(DType::f32, shape, seed++, -0.3, 0.3)); };
  for (int i = 0; i < blocks; ++i) {
    const std::int64_t first = -2 - static_cast<std::int64_t>(chain.stages.size()), pad = kernel / 2;
    chain.stages.push_back({.operands = {data, made({wide, x[3], 1, 1}), made({wide}), -1}, .activation = "HardSwish"});
    chain.stages.push_back({.operands = {first, made({wide, 1, kernel, kernel}), made({wide}), -1},
                            .strides = {stride, stride},
                            .pads = {pad, pad, pad, pad},
                            .group = wide,
                            .activation = "Relu"});
    chain.stages.push_back({.operands = {first - 1, made({x[3], wide, 1, 1}), made({x[3]}), stride == 1 ? data : -1}});
    data = first - 2;
  }
  return chain;
}

TEST(CpuConvChain, InvertedResidualBlocks) {
  check(block({1, 29, 30, 12}, 50, 3, 1));
  check(block({2, 28, 28, 16}, 48, 5, 2));
  check(block({3, 9, 14, 24}, 72, 3, 1, 2));
  check(block({1, 57, 3, 7}, 33, 5, 1, 3));
}

TEST(CpuConvChain, RoundedInvertedResidualBlocks) {
  check(rounded(block({1, 29, 30, 12}, 50, 3, 1)));
  check(rounded(block({2, 28, 28, 16}, 48, 5, 2, 1, DType::bf16)));
  check(rounded(block({3, 9, 14, 24}, 72, 3, 1, 2, DType::bf16)));
  check(rounded(block({1, 57, 3, 7}, 33, 5, 1, 3)));  // odd numbers of channels are copied to whole pairs
  // Pixels 4 KB apart: they are moved apart where they are copied anyway.
  check(rounded(block({1, 6, 7, 2048}, 8, 3, 1)));
  check(rounded(block({1, 6, 7, 2048}, 8, 3, 1, 1, DType::bf16)));
}

// A picture of three channels by windows that overlap, at different strides and with whole lines outside.
TEST(CpuConvChain, RoundedStemsOfFloats) {
  for (const std::int64_t kernel : {1, 2, 3, 7}) {
    for (const std::int64_t stride : {1, 2, 4}) {
      if (kernel == 3 && stride == 1) continue;
      SCOPED_TRACE(kernel * 10 + stride);
      Chain chain;
      const auto made = [&](const Shape& shape) {
        return chain.add(random_tensor(DType::f32, shape, chain.inputs.size() + 1));
      };
      const std::int64_t x = made({2, 33, 30, 3});
      chain.stages.push_back({.operands = {x, made({10, 3, kernel, kernel}), made({10}), -1},
                              .strides = {stride, stride},
                              .pads = {kernel, kernel / 2, 2 * kernel, kernel},
                              .activation = "Relu"});
      chain.stages.push_back({.operands = {-2, made({10, 1, 3, 3}), -1, -1}, .pads = {1, 1, 1, 1}, .group = 10});
      check(rounded(std::move(chain)));
    }
  }
}

TEST(CpuConvChain, MatchesReference) {
  test::expect_matches_reference(block({2, 15, 16, 12}, 40, 3, 1).call(), test::Tolerance::epsilons(DType::f32, 100));
  test::expect_matches_reference(block({1, 15, 17, 12}, 40, 5, 2).call(), test::Tolerance::epsilons(DType::f32, 100));
  // Numbers between two of bfloat16 may be rounded the other way where their sums differ in the last digit.
  const test::Tolerance tolerance = test::Tolerance::epsilons(DType::bf16, 2);
  test::expect_matches_reference(rounded(block({2, 15, 16, 12}, 40, 3, 1)).call(), tolerance);
  test::expect_matches_reference(rounded(block({1, 15, 17, 12}, 40, 5, 2, 1, DType::bf16)).call(), tolerance);
}

TEST(CpuConvChain, WhatIsNoNumberSpreadsAsFarAsWindowsReach) {
  Chain chain = block({1, 21, 8, 8}, 16, 3, 1);
  float* x = chain.inputs[0].mutable_data<float>();
  x[(10 * 8 + 4) * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  x[(3 * 8 + 1) * 8] = std::numeric_limits<float>::infinity();
  for (const Chain& each : {chain, rounded(chain)}) {
    check(each);
    const Tensor y = test::run_op_tensor(each.call(), "cpu", 2);
    for (std::int64_t row = 0; row < 21; ++row)
      EXPECT_EQ(std::isnan(y.data<float>()[(row * 8 + 4) * 8]), row >= 9 && row <= 11) << row;
  }
}

TEST(CpuConvChain, LeavesToOthersWhatDoesNotFitTheCache) {
  const auto refused = [](const Chain& chain) { return test::accepting_cpu_kernels(chain.call()).empty(); };
  EXPECT_FALSE(refused(block({1, 8, 56, 24}, 144, 3, 1)));
  EXPECT_TRUE(refused(block({1, 8, 3000, 24}, 144, 3, 1)));
  EXPECT_TRUE(refused(block({1, 8, 8, 160}, 960, 3, 1)));
  // In half the bytes.
  EXPECT_TRUE(refused(block({1, 8, 224, 24}, 192, 3, 1)));
  EXPECT_FALSE(refused(rounded(block({1, 8, 224, 24}, 192, 3, 1))));
}

TEST(CpuConvChain, LeavesToOthersWhatTheyDoFaster) {
  const auto filtered = [](std::int64_t channels) {
    Chain chain;
    const auto made = [&](const Shape& shape) {
      return chain.add(random_tensor(DType::f32, shape, chain.inputs.size() + 1));
    };
    const std::int64_t x = made({1, 24, 24, channels});
    chain.stages.push_back({.operands = {x, made({channels, channels, 3, 3}), -1, -1}});
    chain.stages.push_back({.operands = {-2, made({8, channels, 1, 1}), -1, -1}});
    return chain;
  };
  EXPECT_TRUE(test::accepting_cpu_kernels(filtered(32).call()).empty());
  {
    const ScopedIsa scoped(base::Isa::avx512, Extensions::vectors);
    EXPECT_TRUE(test::accepting_cpu_kernels(rounded(filtered(32)).call()).empty());
  }
  {
    const ScopedIsa scoped(base::Isa::avx512, Extensions::emulated_tiles);  // which are faster than filters
    EXPECT_FALSE(test::accepting_cpu_kernels(rounded(filtered(32)).call()).empty());
  }
  check(rounded(filtered(8)));
  // Depthwise layers round where their data is stored so.
  Chain chain = rounded(block({1, 12, 12, 8}, 16, 3, 1));
  chain.stages[0].output_dtype = 0;
  EXPECT_TRUE(test::accepting_cpu_kernels(chain.call()).empty());
}

// Nothing between its stages bounds the bands of a single one: trying one for each line of the picture would take
// months.
TEST(CpuConvChain, TallPicturesAreSoonPlanned) {
  constexpr std::int64_t kLines = std::int64_t{1} << 44;
  Chain chain;
  const std::int64_t x = chain.add(random_tensor(DType::f32, {1, 1, 1, 1}, 1)),
                     w = chain.add(random_tensor(DType::f32, {1, 1, 1, 1}, 2));
  chain.stages.push_back({.operands = {x, w, -1, -1}, .pads = {kLines, 0, 0, 0}});
  EXPECT_EQ(test::chosen_cpu_kernel(chain.call()), "cpu_conv_chain");
  // What lies under such padding is no line of the stage before.
  chain.stages.insert(chain.stages.begin(), {.operands = {x, w, -1, -1}});
  chain.stages[1].operands[0] = -2;
  EXPECT_TRUE(test::accepting_cpu_kernels(chain.call()).empty());
}

// Two ways from a result, one of which takes two lines for each of the other's: what lies between them grows with the
// picture.
TEST(CpuConvChain, LeavesToOthersWhatGoesOnAtDifferentStrides) {
  const auto chain = [](std::int64_t stride, std::int64_t pad) {
    Chain chain;
    const auto made = [&](const Shape& shape) {
      return chain.add(random_tensor(DType::f32, shape, chain.inputs.size() + 1));
    };
    const std::int64_t x = made({1, 200, 8, 16});
    chain.stages.push_back({.operands = {x, made({16, 16, 1, 1}), -1, -1}, .activation = "Relu"});
    chain.stages.push_back({.operands = {-2, made({16, 16, 1, 1}), -1, -1}});
    chain.stages.push_back(
        {.operands = {-2, made({16, 16, 1, 1}), -1, -3}, .strides = {stride, 1}, .pads = {0, 0, pad, 0}});
    return chain;
  };
  check(chain(1, 0));
  EXPECT_TRUE(test::accepting_cpu_kernels(chain(2, 199).call()).empty());
}

}  // namespace
}  // namespace tessera::backends::cpu::conv_chain_test
