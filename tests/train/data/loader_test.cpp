#include "train/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "support/expect_error.h"
#include "train/data/sample_support.h"
#include "train/data/sampler.h"

namespace tessera::train::loader_test {
namespace {

using test::CountingDataset;
using test::expect_error_containing;

std::shared_ptr<const CountingDataset> counting(std::int64_t size, std::set<std::int64_t> corrupt = {}) {
  return std::make_shared<CountingDataset>(size, Shape{1, 4, 4}, std::move(corrupt));
}

TransformList transforms(const std::vector<std::string>& descriptions) {
  TransformList list;
  for (const std::string& description : descriptions) list.push_back(make_transform(description));
  return list;
}

std::vector<std::int64_t> labels(const Batch& batch) {
  const auto values = batch.fields.at("y").values<std::int64_t>();
  return {values.begin(), values.end()};
}

TEST(Sampler, DrawsByWeightsTheSameWayEachTime) {
  std::vector<double> weights(1000, 1.0);
  for (std::size_t i = 0; i < 100; ++i) weights[i] = 9;  // half of the sum, about
  weights[999] = 0;
  const std::vector<std::int64_t> order = weighted_order(weights, 3, 0);
  ASSERT_EQ(order.size(), weights.size());
  EXPECT_EQ(order, weighted_order(weights, 3, 0));
  EXPECT_NE(order, weighted_order(weights, 3, 1));
  EXPECT_NE(order, weighted_order(weights, 4, 0));
  EXPECT_NEAR(static_cast<double>(std::ranges::count_if(order, [](std::int64_t i) { return i < 100; })), 500, 60);
  EXPECT_EQ(std::ranges::count(order, 999), 0);
  EXPECT_EQ(weighted_order({0, 0, 5, 0}, 1, 1), (std::vector<std::int64_t>{2, 2, 2, 2}));
}

TEST(EpochOrder, IsAPermutationOfItsOwnForEachEpochAndSeed) {
  const std::vector<std::int64_t> order = epoch_order(1000, true, 1, 0);
  std::vector<std::int64_t> sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, epoch_order(1000, false, 1, 0));
  EXPECT_EQ(order, epoch_order(1000, true, 1, 0));
  EXPECT_NE(order, epoch_order(1000, true, 1, 1));
  EXPECT_NE(order, epoch_order(1000, true, 2, 0));
  EXPECT_NE(order, sorted);
}

TEST(Loader, HandsOutEverySampleOnceAnEpoch) {
  for (const bool drop_last : {true, false}) {
    Loader loader(counting(10), {}, {.batch = 4, .drop_last = drop_last, .workers = 2});
    EXPECT_EQ(loader.batches_per_epoch(), drop_last ? 2 : 3);
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::set<std::int64_t> seen;
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
        const Batch batch = loader.next();
        EXPECT_EQ(batch.position, (DataPosition{epoch, i}));
        EXPECT_EQ(batch.ends_epoch, i + 1 == loader.batches_per_epoch());
        EXPECT_EQ(batch.fields.at("x").shape(), (Shape{batch.samples, 1, 4, 4}));
        for (const std::int64_t label : labels(batch)) {
          seen.insert(label);
          ++count;
        }
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), count);
      EXPECT_EQ(count, drop_last ? 8 : 10);
    }
  }
}

TEST(Loader, GivesTheSameBatchesForAnyNumberOfWorkersAndAnyMultiplier) {
  const auto batches = [](int workers, std::int64_t multiplier, std::int64_t ahead) {
    Loader loader(counting(37, {5, 6, 20}), transforms({"crop:1", "flip"}),
                  {.batch = 4,
                   .seed = 3,
                   .workers = workers,
                   .batch_multiplier = multiplier,
                   .max_ahead_bytes = ahead,
                   .mixup = 0.3});
    std::vector<Batch> result;
    for (int i = 0; i < 30; ++i) result.push_back(loader.next());
    return result;
  };
  const std::vector<Batch> expected = batches(0, 1, 1 << 20);
  for (const auto& [workers, multiplier, ahead] : {std::tuple{1, 1, 1}, {3, 1, 1 << 20}, {4, 3, 1 << 20}, {2, 8, 1}}) {
    const std::vector<Batch> found = batches(workers, multiplier, ahead);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i].position, expected[i].position);
      for (const auto& [name, tensor] : expected[i].fields)
        EXPECT_TRUE(identical(tensor, found[i].fields.at(name))) << name << " of batch " << i;
    }
  }
}

TEST(Loader, ResumesAtAnyPosition) {
  const auto make = [] {
    return std::make_unique<Loader>(counting(23), transforms({"crop:1"}),
                                    LoaderOptions{.batch = 3, .seed = 5, .workers = 2, .batch_multiplier = 2});
  };
  const auto whole = make();
  std::vector<Batch> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(whole->next());
  for (const std::size_t at : {0u, 1u, 6u, 7u, 13u}) {
    const auto resumed = make();
    resumed->next();
    resumed->seek(expected[at].position);
    EXPECT_EQ(resumed->position(), expected[at].position);
    for (std::size_t i = at; i < expected.size(); ++i) {
      const Batch batch = resumed->next();
      ASSERT_EQ(batch.position, expected[i].position);
      EXPECT_TRUE(identical(batch.fields.at("x"), expected[i].fields.at("x")));
    }
  }
  expect_error_containing(ErrorKind::invalid_argument, "no batch 7 of epoch 0: an epoch has 7 batches",
                          [&] { whole->seek({0, 7}); });
}

TEST(Loader, SkipsSamplesThatCannotBeReadAndSaysWhich) {
  const auto data = counting(12, {3, 7});
  Loader loader(data, {}, {.batch = 4, .shuffle = false, .workers = 2});
  for (int i = 0; i < 6; ++i) {
    const Batch batch = loader.next();
    const std::vector<std::int64_t> seen = labels(batch);
    EXPECT_EQ(seen, batch.indices);
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::int64_t place = 4 * (i % 3) + k, label = seen[static_cast<std::size_t>(k)];
      if (place == 3 || place == 7) EXPECT_TRUE(label != 3 && label != 7);
      else EXPECT_EQ(label, place);
    }
  }
  const LoaderReport report = loader.report();
  EXPECT_EQ(report.samples, 24);
  EXPECT_EQ(report.skipped, 2);
  std::vector<std::string> reasons = report.reasons;
  std::ranges::sort(reasons);
  EXPECT_EQ(reasons[0], "sample 3: its bytes are damaged");
}

// A neighbour would weigh a hundred times as much as others where a whole part of the data cannot be read.
TEST(Loader, SamplesThatTakeThePlaceOfUnreadableOnesAreDrawnEvenly) {
  std::set<std::int64_t> corrupt;
  for (std::int64_t i = 100; i < 200; ++i) corrupt.insert(i);
  Loader loader(counting(200, corrupt), {}, {.batch = 10, .shuffle = false, .workers = 2});
  std::map<std::int64_t, int> counts;
  for (int i = 0; i < 20; ++i) {
    for (const std::int64_t label : labels(loader.next())) ++counts[label];
  }
  EXPECT_EQ(counts.size(), 100u);
  for (const auto& [label, count] : counts) EXPECT_LT(count, 10) << label;
}

TEST(Loader, LeavesUnreadableSamplesOutWhereNoneTakeTheirPlace) {
  for (const int workers : {0, 3}) {
    Loader loader(counting(12, {3, 4, 5, 6, 7}), {},
                  {.batch = 4, .shuffle = false, .drop_last = false, .replace_unreadable = false, .workers = workers});
    std::vector<std::vector<std::int64_t>> seen;
    for (int i = 0; i < 6; ++i) {
      const Batch batch = loader.next();
      EXPECT_EQ(batch.samples, static_cast<std::int64_t>(labels(batch).size()));
      EXPECT_EQ(batch.fields.at("x").shape(), (Shape{batch.samples, 1, 4, 4}));
      EXPECT_EQ(batch.ends_epoch, i % 3 == 2);
      seen.push_back(labels(batch));
    }
    const std::vector<std::vector<std::int64_t>> epoch = {{0, 1, 2}, {}, {8, 9, 10, 11}};
    EXPECT_EQ(std::vector(seen.begin(), seen.begin() + 3), epoch);
    EXPECT_EQ(std::vector(seen.begin() + 3, seen.end()), epoch);
    EXPECT_EQ(loader.report().skipped, 5);
  }
}

TEST(Loader, WithoutShufflingWhatIsLeftOverComesFirstInTheNextEpoch) {
  Loader loader(counting(10), {}, {.batch = 4, .shuffle = false, .workers = 1});
  EXPECT_EQ(loader.left_over(), 2);
  std::vector<std::int64_t> seen;
  for (int i = 0; i < 5; ++i) {
    for (const std::int64_t label : labels(loader.next())) seen.push_back(label);
  }
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<std::int64_t>(i % 10));
}

TEST(Loader, FailsWhenNothingCanBeRead) {
  Loader loader(counting(4, {0, 1, 2, 3}), {}, {.batch = 2, .workers = 1});
  expect_error_containing(ErrorKind::invalid_argument, "none of the 4 samples can be read; the first one: sample",
                          [&] { loader.next(); });
}

TEST(Loader, KeepsTheBytesAheadWithinTheirBound) {
  const auto data = std::make_shared<CountingDataset>(1000, Shape{1, 64, 64});
  constexpr std::int64_t kBatchBytes = 8 * (64 * 64 * 4 + 8);
  Loader loader(data, {}, {.batch = 8, .workers = 4, .max_ahead_bytes = 3 * kBatchBytes});
  loader.next();
  for (int i = 0; i < 50; ++i) {
    loader.next();
    EXPECT_LE(loader.report().ahead_bytes, 3 * kBatchBytes);
  }
  // What was read ahead of use is bounded as well.
  EXPECT_LE(data->reads(), 8 * (51 + 4));
}

TEST(Loader, ABatchMayOutliveItsLoader) {
  Tensor kept;
  {
    Loader loader(counting(8), {}, {.batch = 2, .shuffle = false, .workers = 1});
    kept = loader.next().fields.at("x");
    loader.next();
  }
  EXPECT_EQ(kept.data<float>()[0], 0);
  EXPECT_EQ(kept.data<float>()[16], 10);
}

TEST(Loader, RefusesOptionsOutOfRange) {
  const auto refuses = [](const LoaderOptions& options, const std::string& text) {
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { Loader(counting(8), {}, options); });
  };
  refuses({.batch = 0}, "the batch of the data is 0, expected at least 1");
  refuses({.batch = 9}, "the data have 8 samples, too few for a batch of 9");
  refuses({.batch = 2, .workers = -1}, "the number of workers of the data is -1");
  refuses({.batch = 2, .batch_multiplier = 0}, "the batch multiplier of the data is 0");
  refuses({.batch = 2, .mixup = -1}, "mixup of the data is -1");
}

}  // namespace
}  // namespace tessera::train::loader_test
