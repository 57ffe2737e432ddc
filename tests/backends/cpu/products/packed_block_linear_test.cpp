#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/machine/simd.h"
#include "base/numbers/block_format.h"
#include "base/numbers/philox.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::packed_block_linear_test {
namespace {

constexpr const char* kKernel = "cpu_packed_block_linear";

// Rows of blocks with random codes: blocks whose elements are large or not finite are drawn anew, with smaller bytes
// after some draws.
Tensor random_blocks(const base::BlockLayout& layout, std::int64_t rows, std::int64_t elements) {
  Tensor weights(DType::u8, {rows * base::row_bytes(layout.format, elements)});
  base::Philox random(47);
  std::vector<float> values(static_cast<std::size_t>(layout.elements));
  std::uint8_t* block = weights.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < weights.bytes() / layout.bytes; ++i, block += layout.bytes) {
    for (int draw = 0;; ++draw) {
      for (std::int64_t j = 0; j < layout.bytes; ++j)
        block[j] = static_cast<std::uint8_t>(random.next_integer(0, draw < 200 ? 255 : 0x3F));
      base::dequantize(layout.format,
                       {reinterpret_cast<const std::byte*>(block), static_cast<std::size_t>(layout.bytes)}, values);
      if (std::ranges::all_of(values, [](float value) { return std::abs(value) < 100; })) break;
    }
  }
  return weights;
}

OpCall call(const base::BlockLayout& layout, std::int64_t rows, std::int64_t n, std::int64_t k, bool bias = false) {
  OpCall made{"tessera::BlockLinear",
              {random_tensor(DType::f32, {rows, k}, 5, -2, 2), random_blocks(layout, n, k)},
              {{"format", std::string(layout.name)}, {"N", n}, {"K", k}}};
  if (bias) made.inputs.emplace_back(random_tensor(DType::f32, {n}, 6, -2, 2));
  return made;
}

bool has_codes(const base::BlockLayout& layout) {
  return base::group_of(layout.format) > 0;
}

TEST(CpuPackedBlockLinear, MatchesReferenceForEveryFormatWithCodes) {
  for (const base::BlockLayout& layout : base::block_layouts()) {
    if (!has_codes(layout)) continue;
    SCOPED_TRACE(std::string(layout.name));
    const OpCall given = call(layout, 7, 37, 2 * layout.elements, true);
    ASSERT_EQ(chosen_cpu_kernel(given), kKernel);
    // Terms of up to 200 cancel out in sums.
    expect_matches_reference(given, Tolerance{2e-5, 2e-2});
  }
}

TEST(CpuPackedBlockLinear, MatchesReferenceForAnyNumberOfRowsAndColumns) {
  for (const base::BlockFormat format : {base::BlockFormat::q4_1, base::BlockFormat::q8_0}) {
    for (const std::int64_t rows : {0, 1, 2, 5, 16, 31, 64}) {
      for (const std::int64_t n : {1, 15, 16, 50})
        expect_matches_reference(call(base::layout_of(format), rows, n, 96), Tolerance{2e-5, 2e-2});
    }
  }
}

void expect_same_bits_beside_others(const base::BlockLayout& layout, std::int64_t rows) {
  const OpCall all = call(layout, rows, 33, 512, true);
  const Tensor together = run_op_tensor_by(all, kKernel);
  const Tensor& x = all.inputs[0].tensor();
  for (const base::Isa isa : {base::Isa::avx2, base::Isa::avx512}) {
    const backends::cpu::ScopedIsa scope(isa);
    if (backends::cpu::active_isa() != isa) continue;
    EXPECT_TRUE(identical(run_op_tensor_by(all, kKernel), together));
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{13}, rows - 1}) {
      OpCall alone = all;
      alone.inputs[0] =
          Tensor::from<float>({1, 512}, x.values<float>().subspan(static_cast<std::size_t>(row * 512), 512));
      const Tensor y = run_op_tensor_by(alone, kKernel);
      EXPECT_EQ(std::memcmp(y.raw(), together.data<float>() + row * 33, 33 * sizeof(float)), 0) << row;
    }
  }
}

TEST(CpuPackedBlockLinear, ARowHasTheSameBitsBesideAnyOthersAndWithAnyInstructionSet) {
  for (const base::BlockLayout& layout : base::block_layouts()) {
    if (!has_codes(layout)) continue;
    SCOPED_TRACE(std::string(layout.name));
    for (const std::int64_t rows : {31, 70}) expect_same_bits_beside_others(layout, rows);
  }
}

TEST(CpuPackedBlockLinear, RoundsTiesAndTinyBlocksAsTheReferenceDoes) {
  for (const base::Isa isa : {base::Isa::avx2, base::Isa::avx512}) {
    const backends::cpu::ScopedIsa scope(isa);
    OpCall given = call(base::layout_of(base::BlockFormat::q8_0), 17, 16, 64);
    float* x = given.inputs[0].tensor().mutable_data<float>();
    for (int i = 0; i < 17 * 64; ++i) x[i] = i % 64 == 0 ? 127.0f : static_cast<float>(i % 254 - 127) + 0.5f;
    std::fill_n(x + 64, 32, 1e-37f);
    std::fill_n(x + 128, 32, 2e-36f);
    expect_matches_reference(given, Tolerance{2e-5, 2e-2});
  }
}

// Weights and activations of the largest magnitude, where narrow sums would saturate.
TEST(CpuPackedBlockLinear, SumsOfTheLargestCodesAreExact) {
  for (const int code : {0x00, 0x7F, 0x80, 0xFF}) {
    for (const base::BlockFormat format : {base::BlockFormat::q4_0, base::BlockFormat::q8_0}) {
      const base::BlockLayout& layout = base::layout_of(format);
      OpCall given = call(layout, 3, 17, 64);
      std::ranges::fill(given.inputs[0].tensor().mutable_values<float>(), -127.0f);
      std::uint8_t* block = given.inputs[1].tensor().mutable_data<std::uint8_t>();
      for (std::int64_t i = 0; i < 17 * 2; ++i, block += layout.bytes) {
        std::fill_n(block, layout.bytes, static_cast<std::uint8_t>(code));
        block[0] = 0x00, block[1] = 0x3C;  // a scale of 1
      }
      expect_matches_reference(given, Tolerance{0, 0});
    }
  }
}

TEST(CpuPackedBlockLinear, ARowOfZerosGivesTheBiasAndARowWithoutNumbersSpoilsNoOther) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    OpCall given = call(base::layout_of(base::BlockFormat::q4_0), 3, 20, 64, true);
    float* x = given.inputs[0].tensor().mutable_data<float>();
    x[64 + 40] = bad;
    std::fill_n(x + 128, 64, 0.0f);
    const Tensor y = run_op_tensor_by(given, kKernel);
    for (int n = 0; n < 20; ++n) {
      EXPECT_TRUE(std::isfinite(y.data<float>()[n]));
      EXPECT_TRUE(std::isnan(y.data<float>()[20 + n]));
      EXPECT_EQ(y.data<float>()[40 + n], given.inputs[2].tensor().data<float>()[n]);
    }
  }
}

TEST(CpuPackedBlockLinear, LeavesExactProductsAndWeightsWithoutCodesToOthers) {
  OpCall exact = call(base::layout_of(base::BlockFormat::q4_0), 2, 16, 64);
  exact.attributes.insert({"exact", std::int64_t{1}});
  EXPECT_NE(chosen_cpu_kernel(exact), kKernel);
  EXPECT_NE(chosen_cpu_kernel(call(base::layout_of(base::BlockFormat::f16), 2, 16, 64)), kKernel);
}

}  // namespace
}  // namespace tessera::test::packed_block_linear_test
