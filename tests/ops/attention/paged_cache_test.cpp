#include "ops/attention/paged_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/numbers/half.h"
#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::paged_cache_test {
namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kSize = 8, kPage = 4, kPages = 8;

Tensor random(Shape shape, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  Tensor tensor(DType::f32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.mutable_data<float>()[i] = static_cast<float>(generator() % 2001) / 500.0f - 2.0f;
  return tensor;
}

Tensor integers(Shape shape, std::vector<std::int64_t> values) {
  return Tensor::from<std::int64_t>(std::move(shape), values);
}

// Keys or values of a sequence, all of them, and the state of a cache.
struct Step {
  Tensor q, k, v, positions, sequence;
};

struct Cache {
  Tensor keys, values;
};

Cache empty_cache() {
  Cache cache{Tensor(DType::f16, {kPages, kKvHeads, kPage, kSize}),
              Tensor(DType::f16, {kPages, kKvHeads, kPage, kSize})};
  for (Tensor* each : {&cache.keys, &cache.values})
    std::fill_n(each->mutable_data<f16_t>(), each->elements(), base::to_f16(NAN));
  return cache;
}

ir::Attributes attributes(std::int64_t window = 0, float softcap = 0) {
  return {{"heads", kHeads}, {"kv_heads", kKvHeads}, {"scale", 0.3f}, {"window", window}, {"softcap", softcap}};
}

Tensor attend(const Step& step, const Cache& cache, const Tensor& pages, ir::Attributes given = attributes()) {
  return run_op_tensor({"tessera::CacheAttention",
                        {step.q, step.k, step.v, cache.keys, cache.values, pages, step.positions, step.sequence},
                        std::move(given)});
}

void append(Cache& cache, const Step& step, const Tensor& pages) {
  cache.keys = run_op_tensor({"tessera::AppendRows", {cache.keys, step.k, pages, step.positions, step.sequence}});
  cache.values = run_op_tensor({"tessera::AppendRows", {cache.values, step.v, pages, step.positions, step.sequence}});
}

Tensor rows_of(const Tensor& all, const std::vector<std::int64_t>& rows) {
  const std::int64_t width = all.shape()[1];
  Tensor some(DType::f32, {static_cast<std::int64_t>(rows.size()), width});
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy_n(all.data<float>() + rows[i] * width, width,
                some.mutable_data<float>() + static_cast<std::int64_t>(i) * width);
  return some;
}

// A sequence of ten positions.
const Tensor kQ = random({10, kHeads* kSize}, 1), kK = random({10, kKvHeads* kSize}, 2),
             kV = random({10, kKvHeads* kSize}, 3);

Step step_of(const std::vector<std::int64_t>& positions, std::int64_t sequence = 0) {
  const auto count = static_cast<std::int64_t>(positions.size());
  return {rows_of(kQ, positions), rows_of(kK, positions), rows_of(kV, positions), integers({count}, positions),
          integers({count}, std::vector<std::int64_t>(positions.size(), sequence))};
}

// Attention of the last `count` of ten positions, in double.
std::vector<float> expected(const std::vector<std::int64_t>& positions, std::int64_t window, double softcap) {
  std::vector<float> y;
  const auto half = [](float x) { return static_cast<double>(base::to_float(base::to_f16(x))); };
  for (const std::int64_t p : positions) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const std::int64_t g = h / (kHeads / kKvHeads),
                         first = window > 0 ? std::max<std::int64_t>(0, p - window + 1) : 0;
      std::vector<double> weights;
      double sum = 0;
      for (std::int64_t j = first; j <= p; ++j) {
        double score = 0;
        for (std::int64_t i = 0; i < kSize; ++i)
          score += static_cast<double>(kQ.values<float>()[(p * kHeads + h) * kSize + i]) *
                   half(kK.values<float>()[(j * kKvHeads + g) * kSize + i]);
        score *= 0.3f;
        if (softcap > 0) score = softcap * std::tanh(score / softcap);
        weights.push_back(std::exp(score));
        sum += weights.back();
      }
      for (std::int64_t i = 0; i < kSize; ++i) {
        double value = 0;
        for (std::int64_t j = first; j <= p; ++j)
          value += weights[static_cast<std::size_t>(j - first)] / sum *
                   half(kV.values<float>()[(j * kKvHeads + g) * kSize + i]);
        y.push_back(static_cast<float>(value));
      }
    }
  }
  return y;
}

const Tensor kTable = integers({2, 3}, {5, 0, 7, 2, -1, -1});

TEST(CacheAttention, GivesTheSameInOneStepAndInMany) {
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const auto& [window, softcap] : {std::pair<std::int64_t, float>{0, 0.0f}, {3, 0.0f}, {0, 1.5f}, {1, 0.0f}}) {
    const Tensor whole = attend(step_of(all), empty_cache(), kTable, attributes(window, softcap));
    EXPECT_TRUE(close_to(whole, Tensor::from<float>({10, kHeads * kSize}, expected(all, window, softcap)),
                         Tolerance::epsilons(DType::f32, 16)));
    Cache cache = empty_cache();
    for (const std::vector<std::int64_t>& chunk :
         std::vector<std::vector<std::int64_t>>{{0}, {1, 2, 3, 4}, {6, 5}, {7, 8, 9}}) {
      const Step step = step_of(chunk);
      const Tensor y = attend(step, cache, kTable, attributes(window, softcap));
      const Tensor wanted = rows_of(whole, chunk);
      for (std::int64_t i = 0; i < y.elements(); ++i) EXPECT_EQ(y.values<float>()[i], wanted.values<float>()[i]) << i;
      append(cache, step, kTable);
    }
  }
}

TEST(CacheAttention, RowsOfOtherSequencesDoNotMeet) {
  Step both = step_of({0, 1, 0});
  both.sequence = integers({3}, {0, 0, 1});
  Step padded = both;
  padded.sequence = integers({3}, {0, 0, -1});
  const Tensor y = attend(both, empty_cache(), kTable), z = attend(padded, empty_cache(), kTable),
               alone = attend(step_of({0}, 1), empty_cache(), kTable);
  for (std::int64_t i = 0; i < kHeads * kSize; ++i) {
    EXPECT_EQ(y.values<float>()[2 * kHeads * kSize + i], alone.values<float>()[i]);
    EXPECT_EQ(z.values<float>()[2 * kHeads * kSize + i], 0);
  }
}

TEST(CacheAttention, CodesOfEightBitsHaveAScaleOfTheirRow) {
  const Step step = step_of({0, 1, 2});
  Tensor codes(DType::i8, {kPages, kKvHeads, kPage, kSize}), scales(DType::f32, {kPages, kKvHeads, kPage});
  std::fill_n(codes.mutable_data<std::int8_t>(), codes.elements(), std::int8_t{0});
  std::fill_n(scales.mutable_data<float>(), scales.elements(), 0.0f);
  const auto appended =
      run_op({"tessera::AppendRows", {codes, step.k, kTable, step.positions, step.sequence, scales}, {}, 2});
  const Tensor &new_codes = appended[0].tensor(), &new_scales = appended[1].tensor();
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t h = 0; h < kKvHeads; ++h) {
      const std::int64_t row = (5 * kKvHeads + h) * kPage + t;  // positions 0 to 3 lie in page 5
      for (std::int64_t i = 0; i < kSize; ++i) {
        const float stored =
            new_scales.values<float>()[row] * static_cast<float>(new_codes.values<std::int8_t>()[row * kSize + i]);
        EXPECT_NEAR(stored, step.k.values<float>()[(t * kKvHeads + h) * kSize + i],
                    new_scales.values<float>()[row] * 0.51f);
      }
    }
  }
}

TEST(CacheAttention, RefusesPlacesThatAreNotThere) {
  expect_error_containing(ErrorKind::failed, "position 4 of sequence 1 lies in page -1",
                          [] { attend(step_of({4}, 1), empty_cache(), kTable); });
  expect_error_containing(ErrorKind::failed, "sequence 2 is none of 2",
                          [] { attend(step_of({0}, 2), empty_cache(), kTable); });
  Step beyond = step_of({0});
  beyond.positions = integers({1}, {12});
  expect_error_containing(ErrorKind::failed, "position 12 of sequence 0 lies beyond",
                          [&] { attend(beyond, empty_cache(), kTable); });
}

}  // namespace
}  // namespace tessera::test::paged_cache_test
