// Compares every entry of the CPU's kernel table with the reference, on every instruction set that this machine has:
// each entry runs at least one call that it accepts. An entry that no call reaches fails the test: give its operator an
// example in support/op_examples_*.cpp or, where it accepts only larger or rounded operands, a call in kernel_calls()
// below.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/machine/simd.h"
#include "ops/op_table.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "support/typed_example.h"
#include "tessera/error.h"

namespace tessera::test::every_kernel_test {
namespace {

using backends::cpu::Extensions;
using base::Isa;

// An instruction set with what kernels may use beyond it.
struct Mode {
  std::string_view name;
  Isa isa;
  Extensions extensions;
};
constexpr Mode kModes[] = {
    {"scalar", Isa::scalar, Extensions::none},
    {"AVX2", Isa::avx2, Extensions::none},
    {"AVX-512", Isa::avx512, Extensions::none},
    {"AVX-512 with dot products of int8 (VNNI), of bfloat16 (BF16) and permutations of bytes (VBMI)", Isa::avx512,
     Extensions::vectors},
    {"tile registers (AMX)", Isa::avx512, Extensions::tiles},
    {"tile registers (AMX), emulated", Isa::avx512, Extensions::emulated_tiles},
};

// What of the mode this machine lacks, or "". The mode is in force.
std::string missing_in(const Mode& mode) {
  using namespace backends::cpu;
  if (active_isa() != mode.isa) return std::string(mode.name);
  std::vector<std::string> missing;
  if (mode.extensions == Extensions::tiles && !active_tiles()) missing.emplace_back(mode.name);
  if (mode.extensions == Extensions::vectors) {
    if (!active_vnni()) missing.emplace_back("AVX-512 VNNI");
    if (!active_bf16()) missing.emplace_back("AVX-512 BF16");
    if (!active_vbmi()) missing.emplace_back("AVX-512 VBMI");
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

// Whether kernels would run by the same code as in another mode of the list.
bool adds_nothing(const Mode& mode) {
  using namespace backends::cpu;
  if (active_isa() != mode.isa) return true;
  if (mode.extensions == Extensions::tiles) return !active_tiles();
  return mode.extensions == Extensions::vectors && !active_vnni() && !active_bf16() && !active_vbmi();
}

// Every example of the operators that the CPU has kernels for, in every type of each of its parameters, one at a time.
std::vector<OpCall> example_calls(const std::set<std::string_view>& ops) {
  std::vector<OpCall> calls;
  for (const OpExample& example : op_examples()) {
    if (!ops.contains(example.op)) continue;
    const TypedExample typed(*ops::find_op(example.op), example);
    calls.push_back(typed.call({}));
    for (const auto& [name, group] : typed.groups()) {
      for (const DType type : listed(group.types)) calls.push_back(typed.call({{name, type}}));
    }
  }
  return calls;
}

Tensor numbers(DType type, const Shape& shape, std::uint64_t seed) {
  return random_tensor(type, shape, seed, -1, 1);
}
Tensor bytes(DType type, const Shape& shape, std::uint64_t seed) {
  return random_tensor(type, shape, seed, type == DType::u8 ? 0 : -64, type == DType::u8 ? 255 : 63);
}

// Numbers of which three of four are zero.
Tensor mostly_zero(const Shape& shape, std::uint64_t seed) {
  Tensor tensor = numbers(DType::f32, shape, seed);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (i % 4 != 0) tensor.mutable_data<float>()[i] = 0;
  }
  return tensor;
}

// Int8 weights of which only the first sixteen rows are not zero.
Tensor rows_of_zeros(const Shape& shape, std::uint64_t seed) {
  Tensor tensor = bytes(DType::i8, shape, seed);
  const auto values = static_cast<std::size_t>(tensor.elements());
  std::fill_n(tensor.mutable_data<std::int8_t>() + 16 * shape[1], values - static_cast<std::size_t>(16 * shape[1]), 0);
  return tensor;
}

// Whole numbers from -127 to 127, with 127 in each block of 32: rounded to 8 bits a block, they stay as they are.
Tensor whole_numbers(const Shape& shape) {
  Tensor tensor(DType::f32, shape);
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.mutable_data<float>()[i] = i % 32 == 0 ? 127 : static_cast<float>(i * 37 % 255 - 127);
  return tensor;
}

// Calls for entries that no example suits.
std::vector<OpCall> kernel_calls() {
  const ir::Attributes rounded{{"precision", std::string("bf16")}},
      depthwise{{"group", std::int64_t{6}}, {"pads", std::vector<std::int64_t>(4, 1)}};
  const ir::Attributes gradient{{"kernel_shape", std::vector<std::int64_t>(2, 3)}};
  ir::Attributes rounded_depthwise = depthwise, depthwise_gradient = depthwise, rounded_gradient = gradient;
  rounded_gradient.insert(rounded.begin(), rounded.end());
  depthwise_gradient.insert(gradient.begin(), gradient.end());
  rounded_depthwise.insert(rounded.begin(), rounded.end());
  const Tensor x = numbers(DType::f32, {3, 5}, 1), y = numbers(DType::f32, {3, 5}, 2),
               image = numbers(DType::f32, {1, 7, 9, 6}, 3);
  const Tensor words = Tensor::from<std::int32_t>({1, 3}, {2, 0, 1}),
               kinds = Tensor::from<std::int32_t>({1, 3}, {0, 1, 1});
  return {
      {"ArgMax", {x}, {{"axis", std::int64_t{1}}}},
      {"ArgMin", {x}, {{"axis", std::int64_t{1}}}},
      {"Max", {x, y}},
      {"Min", {x, y}},
      {"Sum", {x, y}},
      {"com.microsoft::EmbedLayerNormalization",
       {words, kinds, numbers(DType::f32, {4, 8}, 4), numbers(DType::f32, {3, 8}, 5), numbers(DType::f32, {2, 8}, 6),
        numbers(DType::f32, {8}, 7), numbers(DType::f32, {8}, 8)}},
      {"Attention",
       {numbers(DType::bf16, {1, 2, 24, 8}, 9), numbers(DType::bf16, {1, 2, 20, 8}, 10),
        numbers(DType::bf16, {1, 2, 20, 8}, 11)}},
      {"tessera::ChannelsLastConv", {image, numbers(DType::f32, {10, 6, 1, 1}, 12), numbers(DType::f32, {10}, 13)}},
      {"tessera::ChannelsLastConv",
       {image, numbers(DType::f32, {6, 1, 3, 3}, 14), numbers(DType::f32, {6}, 15)},
       rounded_depthwise},
      {"tessera::ChannelsLastConvTranspose", {image, numbers(DType::f32, {6, 1, 3, 3}, 22)}, depthwise},
      {"tessera::ChannelsLastConvTranspose", {image, numbers(DType::f32, {6, 10, 1, 1}, 23)}},
      {"tessera::ChannelsLastConvTranspose", {image, numbers(DType::f32, {6, 10, 3, 3}, 24)}},
      {"tessera::ChannelsLastConvWeightGradient", {image, numbers(DType::f32, {1, 7, 9, 6}, 25)}, depthwise_gradient},
      {"tessera::ChannelsLastConvWeightGradient", {image, numbers(DType::f32, {1, 5, 7, 6}, 26)}, gradient},
      {"tessera::ChannelsLastConvTranspose",
       {numbers(DType::bf16, {1, 7, 9, 6}, 36), numbers(DType::f32, {6, 10, 1, 1}, 37)},
       rounded},
      {"tessera::ChannelsLastConvWeightGradient",
       {numbers(DType::bf16, {1, 7, 9, 6}, 38), numbers(DType::bf16, {1, 5, 7, 6}, 39)},
       rounded_gradient},
      {"tessera::ConvWeightGradient",
       {numbers(DType::f32, {1, 6, 7, 9}, 27), numbers(DType::f32, {1, 6, 7, 9}, 28)},
       depthwise_gradient},
      {"tessera::ConvWeightGradient",
       {numbers(DType::f32, {1, 6, 7, 9}, 29), numbers(DType::f32, {1, 4, 5, 7}, 30)},
       gradient},
      {"tessera::Linear", {x, numbers(DType::f32, {5, 20}, 16), numbers(DType::f32, {20}, 17)}, rounded},
      {"tessera::Linear", {x, mostly_zero({5, 20}, 31), numbers(DType::f32, {20}, 32)}},
      {"tessera::Linear", {x, mostly_zero({5, 20}, 40), numbers(DType::f32, {20}, 41)}, rounded},
      {"MatMul", {x, mostly_zero({5, 20}, 33)}},
      {"com.microsoft::MatMulNBits",
       {whole_numbers({3, 64}), random_tensor(DType::u8, {5, 2, 16}, 45, 0, 255),
        random_tensor(DType::f32, {5, 2}, 46, 0.25, 0.25)},
       {{"K", std::int64_t{64}},
        {"N", std::int64_t{5}},
        {"bits", std::int64_t{4}},
        {"block_size", std::int64_t{32}},
        {"accuracy_level", std::int64_t{4}}}},
      {"Gemm", {x, mostly_zero({5, 20}, 34), numbers(DType::f32, {20}, 35)}},
      {"tessera::QuantisedConv",
       {bytes(DType::u8, {1, 7, 9, 6}, 18), bytes(DType::i8, {6, 1, 3, 3}, 19), numbers(DType::f32, {6}, 20),
        Tensor::scalar(0.02f), Tensor::scalar<std::uint8_t>(119), Tensor::scalar(0.01f), Tensor::scalar(0.1f),
        Tensor::scalar<std::uint8_t>(131)},
       depthwise},
      {"tessera::QuantisedLinear",
       {bytes(DType::u8, {3, 128}, 42), rows_of_zeros({128, 128}, 43), numbers(DType::f32, {128}, 44),
        Tensor::scalar(0.02f), Tensor::scalar<std::uint8_t>(119), Tensor::scalar(0.01f), Tensor::scalar(0.1f),
        Tensor::scalar<std::uint8_t>(131)}},
  };
}

using Entry = std::pair<std::string_view, std::string_view>;  // operator and kernel

struct Comparison {
  OpCall call;
  std::vector<std::string> kernels;
  std::vector<Value> expected;
};

std::vector<Comparison> comparisons(const std::set<std::string_view>& ops) {
  std::vector<OpCall> calls = example_calls(ops);
  for (OpCall& call : kernel_calls()) calls.push_back(std::move(call));
  std::vector<Comparison> all;
  for (OpCall& call : calls) {
    try {
      std::vector<std::string> kernels = accepting_cpu_kernels(call);
      if (kernels.empty()) continue;
      std::vector<Value> expected = run_op(call, "reference");
      all.push_back({std::move(call), std::move(kernels), std::move(expected)});
    } catch (const Error&) {
      // Element types that do not go together; element_types_test.cpp expects the message.
    }
  }
  return all;
}

// Some roundings apart, more of them where Winograd's transforms or the products of kernel_calls() are summed; an int8
// result that lies at a tie may be a step apart.
testing::AssertionResult agrees(const Tensor& actual, const Tensor& expected, std::string_view kernel) {
  if (kernel == "cpu_quantised_depthwise" || kernel == "cpu_quantised_sparse_linear") {
    if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape())
      return testing::AssertionFailure() << "another type or shape";
    for (std::int64_t i = 0; i < expected.elements(); ++i) {
      const int step = actual.data<std::uint8_t>()[i] - expected.data<std::uint8_t>()[i];
      if (step < -1 || step > 1)
        return testing::AssertionFailure() << "element " << i << " is " << step << " steps off";
    }
    return testing::AssertionSuccess();
  }
  const bool sums = kernel.find("winograd") != std::string_view::npos || kernel == "cpu_bf16_linear" ||
                    kernel == "cpu_bf16_sparse_linear" || kernel == "cpu_bf16_depthwise" ||
                    kernel.starts_with("cpu_channels_last_pointwise") ||
                    kernel == "cpu_channels_last_conv_transpose_phases" || kernel == "cpu_bf16_conv_transpose" ||
                    kernel.ends_with("weight_gradient");
  return close_to(actual, expected, Tolerance::epsilons(expected.dtype(), sums ? 64 : 4));
}

void compare(const Comparison& comparison, const std::string& kernel) {
  SCOPED_TRACE(kernel + " for " + title(comparison.call));
  const std::vector<Value> actual = run_op_by(comparison.call, kernel);
  for (std::size_t i = 0; i < comparison.expected.size(); ++i) {
    if (!comparison.expected[i].has_value()) continue;
    EXPECT_TRUE(agrees(actual[i].tensor(), comparison.expected[i].tensor(), kernel)) << "output " << i;
  }
}

std::string listed_entries(const std::set<Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& [op, kernel] : entries) names.push_back(fmt::format("{} of {}", kernel, op));
  return fmt::format("{}", fmt::join(names, ", "));
}

TEST(EveryKernel, IsComparedWithTheReferenceOnEachInstructionSet) {
  std::set<Entry> entries;
  std::set<std::string_view> ops;
  for (const auto table : backends::cpu::kernel_tables()) {
    for (const backends::KernelEntry& entry : table) {
      entries.emplace(entry.op, entry.name);
      ops.insert(entry.op);
    }
  }
  std::set<std::string> cannot_run;
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(std::string(mode.name));
    const backends::cpu::ScopedIsa scope(mode.isa, mode.extensions);
    if (const std::string missing = missing_in(mode); !missing.empty()) cannot_run.insert(missing);
    if (adds_nothing(mode)) continue;
    std::set<Entry> left = entries;
    for (const Comparison& comparison : comparisons(ops)) {
      for (const std::string& kernel : comparison.kernels) {
        compare(comparison, kernel);
        left.erase({comparison.call.op, kernel});
      }
    }
    // It decomposes into a Scan, which no single call can run: recurrent/recurrent_s8_test.cpp compares it.
    left.erase({"com.microsoft::DynamicQuantizeLSTM", "cpu_dynamic_quantize_lstm"});
    // They reject every node without AVX2.
    if (mode.isa < Isa::avx2) {
      left.erase({"tessera::BlockLinear", "cpu_packed_block_linear"});
      left.erase({"com.microsoft::MatMulNBits", "cpu_packed_matmul_n_bits"});
    }
    EXPECT_TRUE(left.empty()) << "no call reaches " << listed_entries(left);
  }
  if (!cannot_run.empty())
    std::cout << fmt::format("this machine cannot run, so nothing here compared: {}\n", fmt::join(cannot_run, "; "));
}

}  // namespace
}  // namespace tessera::test::every_kernel_test
