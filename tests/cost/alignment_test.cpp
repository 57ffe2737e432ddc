#include "cost/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/evaluation.h"

namespace tessera::test::alignment_test {
namespace {

using cost::Precision;
using cost::Product;
using cost::Work;

const cost::DeviceProfile& device(const char* name) {
  return *cost::find_built_in_profile(name);
}

Work product(std::int64_t m, std::int64_t n, std::int64_t k, Precision precision = Precision::f16) {
  Work work{.op = "MatMul", .product = true, .precision = precision};
  work.gemm = Product{.m = m, .n = n, .k = k, .fixed_n = true, .fixed_k = true};
  const double bytes = cost::storage_bytes(precision);
  work.weight_bytes = bytes * static_cast<double>(n * k);
  work.cost = {work.gemm->operations(), work.weight_bytes + bytes * static_cast<double>(m * k),
               bytes * static_cast<double>(m * n)};
  return work;
}

cost::Layer layer(const Work& work, const char* name) {
  return cost::evaluate({work}, device(name), work.precision).layers[0];
}

TEST(Alignment, MultiplesAre16Bytes) {
  EXPECT_EQ(cost::alignment_multiple(Precision::f16), 8);
  EXPECT_EQ(cost::alignment_multiple(Precision::bf16), 8);
  EXPECT_EQ(cost::alignment_multiple(Precision::int8), 16);
  EXPECT_EQ(cost::alignment_multiple(Precision::tf32), 4);
  EXPECT_EQ(cost::alignment_multiple(Precision::f16, 128), 64);
}

// Transformer's vocabulary: 33,708 is no multiple of 8; 33,712 is, and worth it.
TEST(Alignment, VocabularyOf33708) {
  const cost::Layer projection = layer(product(5120, 33708, 1024), "v100-16");
  EXPECT_FALSE(projection.alignment.aligned);
  ASSERT_EQ(projection.alignment.misaligned.size(), 1u);
  EXPECT_EQ(projection.alignment.misaligned[0].to, 33712);
  EXPECT_GT(projection.padding_gain_seconds, 0.5 * projection.estimate.seconds);
  EXPECT_TRUE(layer(product(5120, 33712, 1024), "v100-16").alignment.aligned);
  // In tf32, four elements are 16 bytes.
  EXPECT_TRUE(layer(product(5120, 33708, 1024, Precision::tf32), "a100-40-sxm").alignment.aligned);
}

TEST(Alignment, FirstLayerOfThreeChannels) {
  Work stem = product(112 * 112 * 32, 64, 3 * 49);
  stem.gemm->input_channels = 3;
  stem.gemm->output_channels = 64;
  const cost::Layer first = layer(stem, "v100-16");
  EXPECT_FALSE(first.alignment.aligned);
  ASSERT_EQ(first.alignment.misaligned.size(), 1u);
  EXPECT_STREQ(first.alignment.misaligned[0].dimension, "input channels");
  EXPECT_EQ(first.alignment.misaligned[0].to, 8);
  const Work padded = *cost::padded(stem, 8);
  EXPECT_EQ(padded.gemm->k, 8 * 49);
  EXPECT_EQ(padded.gemm->n, 64);
  EXPECT_NEAR(padded.cost.operations / stem.cost.operations, 8.0 / 3.0, 1e-9);
}

// A language model's product with eight columns: aligned, but seven eighths of each tile compute nothing.
TEST(Alignment, EightColumnsAgainst500000) {
  const cost::Layer narrow = layer(product(512, 8, 500000), "v100-16");
  EXPECT_TRUE(narrow.alignment.aligned);
  EXPECT_DOUBLE_EQ(narrow.alignment.tile_utilisation, 8.0 / 64.0);
  EXPECT_EQ(narrow.estimate.bound, cost::Bound::memory);
  EXPECT_LT(narrow.estimate.intensity, 10);
  EXPECT_LE(narrow.padding_gain_seconds, 0);
}

TEST(Alignment, RowsNeedNoMultipleForTheRate) {
  const cost::Alignment odd_rows = cost::align(product(1001, 1024, 1024), device("a100-40-sxm"));
  EXPECT_FALSE(odd_rows.aligned);
  EXPECT_EQ(odd_rows.aligned_share, 1);
  EXPECT_LT(cost::align(product(1024, 1001, 1024), device("a100-40-sxm")).aligned_share, 1);
}

TEST(Alignment, TilesAndWaves) {
  cost::DeviceProfile profile = device("a100-40-sxm");
  profile.tiles = {{256, 128}};
  // One tile more than the multiprocessors: two waves, the second nearly empty.
  const cost::Alignment full = cost::align(product(256 * 9, 128 * 12, 4096), profile);
  EXPECT_EQ(full.tiles, 108);
  EXPECT_EQ(full.waves, 1);
  EXPECT_DOUBLE_EQ(full.utilisation(), 1);
  const cost::Alignment one_more = cost::align(product(256 * 109, 128, 4096), profile);
  EXPECT_EQ(one_more.waves, 2);
  EXPECT_DOUBLE_EQ(one_more.wave_utilisation, 109.0 / 216.0);
  const cost::Alignment edge = cost::align(product(256 * 54, 129, 4096), profile);
  EXPECT_EQ(edge.tiles, 108);
  EXPECT_DOUBLE_EQ(edge.tile_utilisation, 129.0 / 256.0);
  // Few tiles share a long K.
  const cost::Alignment sliced = cost::align(product(256, 256, 256 * 54), profile);
  EXPECT_EQ(sliced.tiles, 108);
  EXPECT_EQ(cost::align(product(256, 256, 256), profile).tiles, 2);
}

TEST(Alignment, OnlyOfMatrixUnits) {
  EXPECT_FALSE(cost::align(product(64, 64, 64, Precision::f32), device("a100-40-sxm")).applies);
  EXPECT_FALSE(cost::align(product(64, 64, 64, Precision::bf16), device("v100-16")).applies);
  EXPECT_TRUE(cost::align(product(64, 64, 64), device("v100-16")).applies);
  EXPECT_FALSE(cost::padded(product(64, 64, 64), 8));
}

}  // namespace
}  // namespace tessera::test::alignment_test
