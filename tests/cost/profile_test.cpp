#include "cost/profile.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::test::profile_test {
namespace {

using cost::DeviceProfile;
using cost::Precision;

const DeviceProfile& device(const char* name) {
  const DeviceProfile* profile = cost::find_built_in_profile(name);
  if (profile == nullptr) throw std::runtime_error(std::string("no profile ") + name);
  return *profile;
}

TEST(Profile, EveryDeviceThatIsPromised) {
  for (const char* name : {"t4", "v100-16", "v100-32", "a100-40-pcie", "a100-40-sxm", "a100-80-pcie", "a100-80-sxm",
                           "a10", "l4", "l40s", "h100-pcie", "h100-sxm", "h200", "cpu"}) {
    EXPECT_FALSE(device(name).sources.empty()) << name;
  }
}

// The ratios of the specification: operations per byte in f16.
TEST(Profile, V100Ratio) {
  EXPECT_NEAR(device("v100-16").ridge(Precision::f16), 138.9, 0.05);
}
TEST(Profile, A100Ratio) {
  EXPECT_NEAR(device("a100-40-sxm").ridge(Precision::f16), 200.6, 0.05);
}
TEST(Profile, A100RatioIsTwiceThatWithSparsity) {
  const DeviceProfile& a100 = device("a100-40-pcie");
  EXPECT_DOUBLE_EQ(a100.sparse_matrix_rates.f16 / a100.bandwidth, 2 * a100.ridge(Precision::f16));
}
TEST(Profile, H200Ratio) {
  EXPECT_NEAR(device("h200").ridge(Precision::f16), 206, 0.5);
}
TEST(Profile, L40SFigures) {
  const DeviceProfile& l40s = device("l40s");
  EXPECT_EQ(l40s.memory_bytes, 48'000'000'000);
  EXPECT_DOUBLE_EQ(l40s.bandwidth, 864e9);
  EXPECT_DOUBLE_EQ(l40s.watts, 350);
}

TEST(Profile, PeaksDependOnWhatComputes) {
  const DeviceProfile& a100 = device("a100-80-sxm");
  EXPECT_DOUBLE_EQ(a100.peak(Precision::f32, true), 19.5e12);  // no matrix units for float32
  EXPECT_DOUBLE_EQ(a100.peak(Precision::tf32, true), 156e12);
  EXPECT_DOUBLE_EQ(a100.peak(Precision::tf32, false), 19.5e12);
  EXPECT_DOUBLE_EQ(a100.peak(Precision::f16, false), 78e12);
  EXPECT_DOUBLE_EQ(a100.peak(Precision::int8, false), 19.5e12);
  EXPECT_FALSE(device("v100-16").supports(Precision::bf16));
  EXPECT_FALSE(device("t4").supports(Precision::tf32));
}

TEST(Profile, TextReadsBack) {
  DeviceProfile profile = device("h100-sxm");
  profile.one_thread = DeviceProfile::OneThread{profile.vector_rates, 5e9, profile.caches,
                                                cost::Correction({{"cpu_relu", {7}, 3, true}})};
  profile.correction = cost::Correction({{"cpu_relu", {1, 2, 3, 4, 5, 6, 0}, 1.25}});
  const DeviceProfile again = cost::parse_profile(cost::profile_text(profile), "again");
  EXPECT_EQ(cost::profile_text(again), cost::profile_text(profile));
  EXPECT_EQ(again.title, profile.title);
  EXPECT_DOUBLE_EQ(again.matrix_rates.int8, profile.matrix_rates.int8);
  EXPECT_EQ(again.tiles.size(), profile.tiles.size());
  EXPECT_EQ(again.warp_tiles.size(), 3u);
  EXPECT_EQ(again.links.size(), 2u);
  ASSERT_EQ(again.correction.samples().size(), 1u);
  EXPECT_DOUBLE_EQ(again.correction.samples()[0].factor, 1.25);
  EXPECT_FALSE(again.correction.samples()[0].learned);
  ASSERT_EQ(again.with_one_thread().correction.samples().size(), 1u);
  EXPECT_DOUBLE_EQ(again.with_one_thread().correction.samples()[0].factor, 3);
  EXPECT_TRUE(again.with_one_thread().correction.samples()[0].learned);
}

TEST(Profile, SamplesOfAnEarlierVersionAreRead) {
  const auto parse = [](const char* shape) {
    return cost::parse_profile(std::string("name = 'a'\n[vector]\nf32 = 1\n[memory]\nsize_gb = 8\nbandwidth_gb_s = "
                                           "100\n[one_thread]\nbandwidth_gb_s = 50\n"
                                           "[[sample]]\nkernel = 'k'\nfactor = 2\nshape = ") +
                                   shape,
                               "x.toml");
  };
  const DeviceProfile old = parse("[1, 2, 3, 4, 5, 6]");
  EXPECT_EQ(old.correction.samples()[0].shape, (cost::ShapeClass{1, 2, 3, 4, 5, 6, 0}));
  EXPECT_TRUE(old.with_one_thread().correction.knows("k"));  // those of all threads stand in
  expect_error_containing(ErrorKind::invalid_argument, "'shape' must be a list of up to 7 numbers",
                          [&] { parse("[1, 2, 3, 4, 5, 6, 7, 8]"); });
  expect_error_containing(ErrorKind::invalid_argument, "'shape' must be a list of numbers", [&] { parse("[1, 'a']"); });
}

TEST(Profile, OwnFilesAreRead) {
  const TemporaryFolder folder;
  const std::string path = (folder / "mine.toml").string();
  std::ofstream(path) << "name = 'mine'\n[vector]\nf32 = 2\n[memory]\nsize_gb = 8\nbandwidth_gb_s = 100\n";
  const DeviceProfile mine = cost::load_profile(path);
  EXPECT_EQ(mine.title, "mine");
  EXPECT_DOUBLE_EQ(mine.ridge(Precision::f32), 20);
}

TEST(Profile, FaultsOfAFileAreNamed) {
  const auto parse = [](const char* text) { cost::parse_profile(text, "x.toml"); };
  const std::string memory = "[memory]\nsize_gb = 8\nbandwidth_gb_s = 100\n";
  expect_error_containing(ErrorKind::invalid_argument, "x.toml is no TOML: line 1", [&] { parse("name = "); });
  expect_error(ErrorKind::invalid_argument, "x.toml: 'name' is missing", [&] { parse(""); });
  expect_error(ErrorKind::invalid_argument, "x.toml [vector]: 'f32' is missing or zero", [&] { parse("name = 'a'"); });
  expect_error(ErrorKind::invalid_argument, "x.toml: [memory] is missing",
               [&] { parse("name = 'a'\n[vector]\nf32 = 1"); });
  expect_error_containing(ErrorKind::invalid_argument, "unknown key 'f33'",
                          [&] { parse("name = 'a'\n[vector]\nf33 = 1"); });
  expect_error_containing(ErrorKind::invalid_argument, "'f32' must be a number, not negative",
                          [&] { parse("name = 'a'\n[vector]\nf32 = -1"); });
  expect_error_containing(ErrorKind::invalid_argument, "'kind' is 'tpu', expected gpu or cpu",
                          [&] { parse("name = 'a'\nkind = 'tpu'"); });
  expect_error_containing(ErrorKind::invalid_argument, "'misaligned_share' must be in (0, 1]", [&] {
    parse(("name = 'a'\n[vector]\nf32 = 1\n" + memory + "[units]\nmultiprocessors = 1\nmisaligned_share = 2").c_str());
  });
  expect_error_containing(ErrorKind::invalid_argument, "there is no device 'a1000'; there are ",
                          [] { cost::load_profile("a1000"); });
  expect_error_containing(ErrorKind::invalid_argument, "and any .toml file; did you mean 'h100-sxm'?",
                          [] { cost::load_profile("h100-smx"); });
  expect_error_containing(ErrorKind::invalid_argument, "and any .toml file; did you mean 'a100-sxm'?",
                          [] { cost::load_profile("a100-sx"); });
  expect_error(ErrorKind::invalid_argument,
               "there is no device 'abacus'; there are a10, a100-40-pcie, a100-40-sxm, a100-80-pcie, a100-80-sxm, cpu, "
               "h100-pcie, h100-sxm, h200, l4, l40s, t4, v100-16, v100-32, and any .toml file",
               [] { cost::load_profile("abacus"); });
  expect_error_containing(ErrorKind::not_found, "missing.toml", [] { cost::load_profile("/nowhere/missing.toml"); });
}

}  // namespace
}  // namespace tessera::test::profile_test
