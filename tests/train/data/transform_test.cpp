#include "train/data/transform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/expect_error.h"
#include "train/data/images/mixup.h"
#include "train/data/images/volume_transforms.h"
#include "train/data/sample_support.h"
#include "train/data/text/token_transforms.h"

namespace tessera::train::transform_test {
namespace {

using test::expect_error_containing;

std::vector<Field> picture_fields(const Shape& shape) {
  return {{"x", DType::f32, shape}, {"y", DType::i64, {}}};
}

// The picture after the transform, for numbers of the given stream.
std::vector<float> change(const std::string& description, const Shape& shape, const std::vector<float>& picture,
                          std::uint64_t stream) {
  const std::unique_ptr<SampleTransform> transform = make_transform(description);
  const std::vector<Field> fields = transform->bind(picture_fields(shape));
  std::vector<float> result(static_cast<std::size_t>(element_count(fields[0].shape)), -7);
  const std::int64_t label = 5;
  std::int64_t copied = 0;
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(picture.data()),
                           reinterpret_cast<const std::byte*>(&label)};
  std::byte* out[] = {reinterpret_cast<std::byte*>(result.data()), reinterpret_cast<std::byte*>(&copied)};
  base::Philox numbers(1, stream);
  transform->apply(0, in, out, numbers);
  EXPECT_EQ(copied, label);
  return result;
}

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(Flip, MirrorsHalfOfThePictures) {
  const std::vector<float> picture = {1, 2, 3, 4, 5, 6};
  int mirrored = 0;
  for (std::uint64_t stream = 0; stream < 1000; ++stream) {
    const std::vector<float> result = change("flip", {1, 2, 3}, picture, stream);
    if (result != picture) {
      EXPECT_EQ(result, (std::vector<float>{3, 2, 1, 6, 5, 4}));
      ++mirrored;
    }
  }
  EXPECT_NEAR(mirrored, 500, 60);
  for (std::uint64_t stream = 0; stream < 20; ++stream) {
    const std::vector<float> result = change("flip_vertical", {1, 2, 3}, picture, stream);
    EXPECT_TRUE(result == picture || result == (std::vector<float>{4, 5, 6, 1, 2, 3}));
  }
}

TEST(Crop, ShiftsThePictureAndFillsWithZeros) {
  const std::vector<float> picture = counted(2 * 3 * 4);
  std::set<std::pair<int, int>> shifts;
  for (std::uint64_t stream = 0; stream < 500; ++stream) {
    const std::vector<float> result = change("crop:2", {2, 3, 4}, picture, stream);
    bool found = false;
    for (int down = -2; down <= 2 && !found; ++down) {
      for (int right = -2; right <= 2 && !found; ++right) {
        found = true;
        for (int i = 0; i < 24 && found; ++i) {
          const int y = i / 4 % 3 + down, x = i % 4 + right;
          const bool inside = y >= 0 && y < 3 && x >= 0 && x < 4;
          const float expected = inside ? picture[static_cast<std::size_t>(i / 12 * 12 + y * 4 + x)] : 0;
          found = result[static_cast<std::size_t>(i)] == expected;
        }
        if (found) shifts.insert({down, right});
      }
    }
    EXPECT_TRUE(found) << "stream " << stream;
  }
  EXPECT_EQ(shifts.size(), 25u);
}

TEST(Cutout, ZeroesASquareThatMayReachOut) {
  for (std::uint64_t stream = 0; stream < 100; ++stream) {
    const std::vector<float> result = change("cutout:3", {1, 8, 8}, counted(64), stream);
    const auto zeros = std::count(result.begin(), result.end(), 0.0f);
    EXPECT_TRUE(zeros == 9 || zeros == 6 || zeros == 4) << zeros;
  }
}

TEST(ColourJitter, StaysInRangeAndKeepsGreyGrey) {
  const std::vector<float> picture(3 * 16, 0.5f);
  for (std::uint64_t stream = 0; stream < 50; ++stream) {
    const std::vector<float> result = change("colour_jitter:0.5:0.5:0.5", {3, 4, 4}, picture, stream);
    for (const float value : result) {
      EXPECT_GE(value, 0.24f);
      EXPECT_LE(value, 0.76f);
      EXPECT_NEAR(value, result[0], 1e-5f);
    }
  }
}

TEST(Normalise, SubtractsAndDividesPerChannelInEvaluationToo) {
  EXPECT_EQ(change("normalise:1,2:0.5,2", {2, 1, 2}, {1, 2, 2, 4}, 0), (std::vector<float>{0, 2, 0, 1}));
  EXPECT_EQ(change("normalise:1:2", {2, 1, 1}, {3, 5}, 0), (std::vector<float>{1, 2}));
  EXPECT_FALSE(make_transform("normalise:1:2")->for_training_only());
  EXPECT_TRUE(make_transform("flip")->for_training_only());
}

TEST(ConnectedComponents, TouchByFaces) {
  // Two planes of 2 × 3: a component through both planes, one alone, and one that touches it by an edge only.
  const std::vector<std::int64_t> labels = {1, 0, 2, 0, 0, 0,  //
                                            3, 0, 0, 0, 1, 0};
  const std::vector<Component> components = connected_components(labels.data(), {2, 2, 3});
  ASSERT_EQ(components.size(), 3u);
  EXPECT_EQ(components[0].first.depth, 0);
  EXPECT_EQ(components[0].last.depth, 1);
  EXPECT_EQ(components[2].first.width, 1);
}

TEST(BiasedCrop, ContainsALabelledVoxelAsOftenAsAsked) {
  const auto transform = make_transform("biased_crop:2,2,2:1");
  const std::vector<Field> fields = transform->bind({{"x", DType::f32, {1, 8, 8, 8}}, {"y", DType::i64, {8, 8, 8}}});
  EXPECT_EQ(fields[0].shape, (Shape{1, 2, 2, 2}));
  std::vector<float> x = counted(512);
  std::vector<std::int64_t> y(512, 0);
  y[511] = 2;  // the last corner
  y[8 * 8 * 3 + 8 * 2 + 5] = 1;
  std::set<std::int64_t> seen;
  for (std::uint64_t stream = 0; stream < 100; ++stream) {
    std::vector<float> part(8);
    std::vector<std::int64_t> labels(8);
    const std::byte* in[] = {reinterpret_cast<const std::byte*>(x.data()),
                             reinterpret_cast<const std::byte*>(y.data())};
    std::byte* out[] = {reinterpret_cast<std::byte*>(part.data()), reinterpret_cast<std::byte*>(labels.data())};
    base::Philox numbers(3, stream);
    transform->apply(0, in, out, numbers);
    const auto label = std::max_element(labels.begin(), labels.end());
    EXPECT_GT(*label, 0);
    seen.insert(*label);
    // Voxels keep their labels.
    EXPECT_EQ(y[static_cast<std::size_t>(part[static_cast<std::size_t>(label - labels.begin())]) - 1], *label);
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(MaskTokens, HidesAPartAndLabelsIt) {
  const auto transform = make_transform("mask_tokens:0.15:1:100");
  constexpr std::size_t kTokens = 100000;
  const std::vector<Field> fields = transform->bind({{"x", DType::i64, {kTokens}}});
  ASSERT_EQ(fields.size(), 2u);
  const std::vector<std::int64_t> tokens(kTokens, 50);
  std::vector<std::int64_t> x(kTokens), y(kTokens);
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(tokens.data())};
  std::byte* out[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())};
  base::Philox numbers(1);
  transform->apply(0, in, out, numbers);
  double hidden = 0, masked = 0, kept = 0;
  for (std::size_t i = 0; i < kTokens; ++i) {
    if (y[i] == kIgnoredLabel) {
      EXPECT_EQ(x[i], 50);
      continue;
    }
    EXPECT_EQ(y[i], 50);
    hidden += 1;
    masked += x[i] == 1;
    kept += x[i] == 50;
  }
  EXPECT_NEAR(hidden / kTokens, 0.15, 0.005);
  EXPECT_NEAR(masked / hidden, 0.8, 0.02);
  EXPECT_NEAR(kept / hidden, 0.1, 0.015);
}

TEST(MakeTransform, SaysWhatIsWrong) {
  const auto refuses = [](const std::string& description, const std::string& text) {
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { make_transform(description); });
  };
  refuses("rotate:3", "unknown augmentation 'rotate'; there are flip, flip_vertical, crop, cutout");
  refuses("crop", "'crop': expected crop:PIXELS");
  refuses("crop:x", "'x' is no number");
  refuses("crop:-1", "'-1' is no number in [0,");
  refuses("normalise:0:0", "'0' is no number in [1e-12");
  refuses("biased_crop:2,2", "expected three sizes");
  expect_error_containing(ErrorKind::invalid_argument,
                          "flip is for pictures x f32 [channels, height, width]; the data "
                          "have x f32 [4]",
                          [] { make_transform("flip")->bind(picture_fields({4})); });
  expect_error_containing(ErrorKind::invalid_argument, "cannot be cut out of volumes of 2 × 2 × 2", [] {
    make_transform("biased_crop:3,2,2")->bind({{"x", DType::f32, {1, 2, 2, 2}}, {"y", DType::i64, {2, 2, 2}}});
  });
}

TEST(Mixup, MixesPairsWithTheLargerShareTheirOwn) {
  const std::vector<Field> fields = mixed_fields(picture_fields({2}));
  ASSERT_EQ(fields.size(), 4u);
  std::map<std::string, Tensor> batch = {{"x", Tensor::from<float>({3, 2}, {0, 0, 10, 10, 100, 100})},
                                         {"y", Tensor::from<std::int64_t>({3}, {0, 1, 2})},
                                         {"y_mixed", Tensor(DType::i64, {3})},
                                         {"mix", Tensor(DType::f32, {3})}};
  base::Philox numbers(4);
  mix_batch(batch, fields, 0.4, numbers);
  const float values[] = {0, 10, 100};
  for (std::size_t i = 0; i < 3; ++i) {
    const float lambda = batch["mix"].data<float>()[i];
    EXPECT_GE(lambda, 0.5f);
    EXPECT_LE(lambda, 1.0f);
    const float other = values[batch["y_mixed"].data<std::int64_t>()[i]];
    EXPECT_FLOAT_EQ(batch["x"].data<float>()[2 * i], lambda * values[i] + (1 - lambda) * other);
  }
}

TEST(Gamma, HasItsMeanAndVariance) {
  for (const double shape : {0.3, 1.0, 4.5}) {
    base::Philox numbers(9);
    double sum = 0, squares = 0;
    constexpr int kCount = 200000;
    for (int i = 0; i < kCount; ++i) {
      const double x = next_gamma(shape, numbers);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kCount;
    EXPECT_NEAR(mean, shape, 0.03 * shape + 0.005);
    EXPECT_NEAR(squares / kCount - mean * mean, shape, 0.05 * shape + 0.01);
  }
}

}  // namespace
}  // namespace tessera::train::transform_test
