#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers/block_format.h"
#include "base/numbers/philox.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::block_linear_test {
namespace {

// Rows of blocks with random codes and scales of moderate size.
Tensor random_blocks(base::BlockFormat format, std::int64_t rows, std::int64_t elements) {
  const base::BlockLayout& layout = base::layout_of(format);
  Tensor weights(DType::u8, {rows * base::row_bytes(format, elements)});
  base::Philox random(46);
  for (std::uint8_t& byte : weights.mutable_values<std::uint8_t>())
    byte = static_cast<std::uint8_t>(random.next_integer(0, 255));
  // Scales are float16 anywhere in a block: blocks whose elements are large or not finite are drawn anew.
  std::vector<float> values(static_cast<std::size_t>(layout.elements));
  std::uint8_t* block = weights.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < weights.bytes() / layout.bytes; ++i, block += layout.bytes) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(block),
                                           static_cast<std::size_t>(layout.bytes));
    const auto is_moderate = [&] {
      base::dequantize(format, bytes, values);
      return std::ranges::all_of(values, [](float value) { return std::abs(value) < 100; });
    };
    for (int draw = 0; !is_moderate(); ++draw)
      for (std::int64_t j = 0; j < layout.bytes; ++j)
        block[j] = static_cast<std::uint8_t>(random.next_integer(0, draw < 200 ? 255 : 0x3F));
  }
  return weights;
}

OpCall call(base::BlockFormat format, std::int64_t rows, std::int64_t n, std::int64_t k, bool exact,
            bool bias = false) {
  OpCall made{"tessera::BlockLinear",
              {random_tensor(DType::f32, {rows, k}, 5, -2, 2), random_blocks(format, n, k)},
              {{"format", std::string(base::layout_of(format).name)}, {"N", n}, {"K", k}}};
  if (bias) made.inputs.emplace_back(random_tensor(DType::f32, {n}, 6, -2, 2));
  if (exact) made.attributes.insert({"exact", std::int64_t{1}});
  return made;
}

TEST(CpuBlockLinear, MatchesReference) {
  for (const base::BlockLayout& layout : base::block_layouts()) {
    for (const bool exact : {false, true}) {
      SCOPED_TRACE(std::string(layout.name) + (exact ? " exact" : ""));
      const std::int64_t k = layout.elements == 1 ? 37 : 512;
      // Terms of up to 200 cancel out in sums.
      expect_matches_reference(call(layout.format, 3, 21, k, exact, true), Tolerance{2e-5, 2e-2});
    }
  }
}

TEST(CpuBlockLinear, ARowHasTheSameBitsBesideAnyOthers) {
  for (const base::BlockFormat format : {base::BlockFormat::q4_1, base::BlockFormat::q6_k, base::BlockFormat::f16}) {
    const OpCall all = call(format, 9, 33, 512, false);
    const std::string kernel = chosen_cpu_kernel(all);
    const Tensor together = run_op_tensor_by(all, kernel);
    const Tensor& x = all.inputs[0].tensor();
    for (std::int64_t row = 0; row < 9; ++row) {
      OpCall alone = all;
      alone.inputs[0] =
          Tensor::from<float>({1, 512}, x.values<float>().subspan(static_cast<std::size_t>(row * 512), 512));
      const Tensor y = run_op_tensor_by(alone, kernel);
      EXPECT_EQ(std::memcmp(y.raw(), together.data<float>() + row * 33, 33 * sizeof(float)), 0) << row;
    }
  }
}

TEST(CpuBlockLinear, ARowWithoutNumbersSpoilsNoOther) {
  OpCall given = call(base::BlockFormat::q8_0, 3, 5, 64, false);
  given.inputs[0].tensor().mutable_data<float>()[70] = std::numeric_limits<float>::infinity();
  const Tensor y = run_op_tensor_by(given, chosen_cpu_kernel(given));
  for (int n = 0; n < 5; ++n) {
    EXPECT_FALSE(std::isnan(y.data<float>()[n]));
    EXPECT_TRUE(std::isnan(y.data<float>()[5 + n]));
    EXPECT_FALSE(std::isnan(y.data<float>()[10 + n]));
  }
}

}  // namespace
}  // namespace tessera::test::block_linear_test
