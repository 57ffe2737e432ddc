#include "generate/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/numbers/philox.h"
#include "support/error_of.h"

namespace tessera::generate::sampler_test {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

// Everything off but the temperature, which is 1.
SamplingOptions plain() {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  return options;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// How often each token is drawn in `draws` positions of one answer to an empty prompt, without accepting any.
std::map<std::int64_t, int> frequencies(SamplingOptions options, const std::vector<float>& logits, int draws = 4000) {
  std::map<std::int64_t, int> counts;
  for (int i = 0; i < draws; ++i) {
    options.choice = static_cast<std::uint64_t>(i);
    ++counts[TokenSampler(options, static_cast<std::int64_t>(logits.size()), {}).sample(logits)];
  }
  return counts;
}

std::set<std::int64_t> drawn(const SamplingOptions& options, const std::vector<float>& logits) {
  std::set<std::int64_t> tokens;
  for (const auto& [token, count] : frequencies(options, logits)) tokens.insert(token);
  return tokens;
}

std::int64_t greedy(SamplingOptions options, const std::vector<float>& logits,
                    const std::vector<std::int64_t>& prompt = {}, const std::vector<std::int64_t>& answer = {}) {
  options.temperature = 0;
  TokenSampler sampler(options, static_cast<std::int64_t>(logits.size()), prompt);
  for (const std::int64_t token : answer) sampler.accept(token);
  return sampler.sample(logits);
}

TEST(Sampler, TemperatureZeroTakesTheLowestOfTheLargest) {
  EXPECT_EQ(greedy(plain(), {1, 3, 2, 3}), 1);
  const float nan = std::numeric_limits<float>::quiet_NaN(), never = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(greedy(plain(), {nan, never, -5, -5}), 2);
  EXPECT_THAT(error_of([&] { greedy(plain(), {nan, never}); }), HasSubstr("no token has a logit above minus infinity"));
  EXPECT_THAT(error_of([&] { TokenSampler(plain(), 2, {}).sample(std::vector<float>{nan, never}); }),
              HasSubstr("no token"));
}

TEST(Sampler, ATokenFollowsFromSeedChoiceAndPosition) {
  const std::vector<float> logits = logs({0.1, 0.2, 0.3, 0.4});
  for (const std::uint64_t seed : {1, 7}) {
    for (const std::uint64_t choice : {0, 3}) {
      SamplingOptions options = plain();
      options.seed = seed;
      options.choice = choice;
      TokenSampler sampler(options, 4, {});
      for (std::uint64_t position = 0; position < 50; ++position) {
        // The probabilities lie one after the other from the largest down: 0.4, 0.3, 0.2, 0.1.
        const double uniform = base::philox_uniform_at(seed, choice, position);
        const std::int64_t expected = uniform < 0.4 ? 3 : uniform < 0.7 ? 2 : uniform < 0.9 ? 1 : 0;
        EXPECT_EQ(sampler.sample(logits), expected);
        EXPECT_EQ(sampler.sample(logits), expected);  // drawing alone changes nothing
        sampler.accept(expected);
      }
    }
  }
}

TEST(Sampler, TokensAreDrawnByTheirProbability) {
  const std::map<std::int64_t, int> counts = frequencies(plain(), logs({0.5, 0.25, 0.15, 0.1}), 20000);
  EXPECT_NEAR(counts.at(0) / 20000.0, 0.5, 0.015);
  EXPECT_NEAR(counts.at(1) / 20000.0, 0.25, 0.015);
  EXPECT_NEAR(counts.at(3) / 20000.0, 0.1, 0.01);
  SamplingOptions cold = plain();
  cold.temperature = 0.5;  // squares the probabilities: 0.25, 0.0625, 0.0225, 0.01 of 0.345
  EXPECT_NEAR(frequencies(cold, logs({0.5, 0.25, 0.15, 0.1}), 20000).at(0) / 20000.0, 0.25 / 0.345, 0.015);
}

TEST(Sampler, CutsTheTailOff) {
  const std::vector<float> logits = logs({0.1, 0.4, 0.2, 0.25, 0.05});
  SamplingOptions options = plain();
  options.top_k = 2;
  EXPECT_THAT(drawn(options, logits), ElementsAre(1, 3));
  options = plain();
  options.top_p = 0.6;  // 0.4 are too few, 0.65 are enough
  EXPECT_THAT(drawn(options, logits), ElementsAre(1, 3));
  options.top_p = 0.66;
  EXPECT_THAT(drawn(options, logits), ElementsAre(1, 2, 3));
  options.top_p = 0;
  EXPECT_THAT(drawn(options, logits), ElementsAre(1));
  options = plain();
  options.min_p = 0.45;  // of 0.4: 0.18
  EXPECT_THAT(drawn(options, logits), ElementsAre(1, 2, 3));
  // Of the two that top-k leaves, the larger has 0.4 / 0.65 = 0.615 of the probability.
  options = plain();
  options.top_k = 2;
  options.top_p = 0.61;
  EXPECT_THAT(drawn(options, logits), ElementsAre(1));
}

TEST(Sampler, TypicalTokensAreNearTheEntropy) {
  // The entropy is 1.19 nats. The tokens' information: 0.80 (apart by 0.39), 1.20 (0.01), 1.61 (0.42), 3.00 (1.80).
  const std::vector<float> logits = logs({0.45, 0.3, 0.2, 0.05});
  SamplingOptions options = plain();
  options.typical_p = 0.25;
  EXPECT_THAT(drawn(options, logits), ElementsAre(1));
  options.typical_p = 0.4;
  EXPECT_THAT(drawn(options, logits), ElementsAre(0, 1));
  options.typical_p = 0.9;
  EXPECT_THAT(drawn(options, logits), ElementsAre(0, 1, 2));
}

TEST(Sampler, BiasAndPenaltiesChangeLogits) {
  SamplingOptions options = plain();
  options.logit_bias = {{0, 2.5F}};
  EXPECT_EQ(greedy(options, {1, 3, 2}), 0);
  options = plain();
  options.repetition_penalty = 2;
  EXPECT_EQ(greedy(options, {1, 3, 2}, {1}), 2);      // 3 / 2 = 1.5
  EXPECT_EQ(greedy(options, {-5, -3, -4}, {1}), 2);   // −3 · 2 = −6
  EXPECT_EQ(greedy(options, {1, 3, 2}, {}, {1}), 2);  // answers count as well
  options.repetition_window = 2;
  EXPECT_EQ(greedy(options, {1, 3, 2}, {1, 0, 0}), 1);  // it is no longer in the window
  EXPECT_EQ(greedy(options, {1, 3, 2}, {1, 1, 0}), 2);
  options.repetition_window = -1;
  EXPECT_EQ(greedy(options, {1, 3, 2}, {1, 0, 0}), 2);
  options = plain();
  options.presence_penalty = 1.5;
  EXPECT_EQ(greedy(options, {1, 3, 2}, {1}), 1);  // the prompt does not count
  EXPECT_EQ(greedy(options, {1, 3, 2}, {}, {1}), 2);
  options = plain();
  options.frequency_penalty = 0.4;
  EXPECT_EQ(greedy(options, {1, 3, 2}, {}, {1, 1}), 1);     // 3 − 0.8
  EXPECT_EQ(greedy(options, {1, 3, 2}, {}, {1, 1, 1}), 2);  // 3 − 1.2
}

TEST(Sampler, ForbiddenTokensAreNeverDrawn) {
  TokenSampler sampler(plain(), 3, {});
  for (int i = 0; i < 200; ++i) {
    const std::int64_t token = sampler.sample(logs({0.8, 0.1, 0.1}), std::vector<std::int64_t>{0, 99});
    EXPECT_NE(token, 0);
    sampler.accept(token);
  }
}

TEST(Sampler, MirostatHoldsTheSurprise) {
  // 256 tokens whose probability falls with 1 / rank.
  std::vector<double> probabilities;
  for (int i = 1; i <= 256; ++i) probabilities.push_back(1.0 / i);
  const std::vector<float> logits = logs(probabilities);
  for (const double tau : {2.0, 4.0}) {
    SamplingOptions options = plain();
    options.mirostat = true;
    options.mirostat_tau = tau;
    TokenSampler sampler(options, 256, {});
    double surprise = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::int64_t token = sampler.sample(logits);
      surprise -= log_probability(logits, token) / std::log(2);
      sampler.accept(token);
    }
    // The surprise of the cut distribution is held at tau; that of the whole one is larger by what was cut.
    EXPECT_GT(surprise / 2000, tau - 0.2);
    EXPECT_LT(surprise / 2000, tau + 1.5);
  }
  SamplingOptions options = plain();
  options.mirostat = true;
  options.mirostat_tau = 0.5;  // the limit begins at 1 bit: only token 0, of 0.6, has less
  EXPECT_THAT(drawn(options, logs({0.6, 0.2, 0.2})), ElementsAre(0));
}

TEST(Sampler, LogarithmsAreOfTheModelsOwnLogits) {
  const std::vector<float> logits = logs({0.1, 0.6, 0.3});
  EXPECT_NEAR(log_probability(logits, 2), std::log(0.3), 1e-6);
  const std::vector<TokenLogprob> top = most_probable(logits, 2, 0);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 2);
  EXPECT_EQ(top[2].token, 0);
  EXPECT_NEAR(top[0].logprob, std::log(0.6), 1e-6);
  EXPECT_NEAR(top[2].logprob, std::log(0.1), 1e-6);
  EXPECT_EQ(most_probable(logits, 2, 1).size(), 2u);
}

TEST(Sampler, OptionsHaveRanges) {
  const auto check = [](auto&& change) {
    SamplingOptions options;
    change(options);
    return error_of([&] { check_sampling(options, 10); });
  };
  EXPECT_EQ(check([](SamplingOptions&) {}), "");
  EXPECT_THAT(check([](SamplingOptions& o) { o.temperature = -1; }), HasSubstr("temperature is -1, expected a number"));
  EXPECT_THAT(check([](SamplingOptions& o) { o.temperature = std::nan(""); }), HasSubstr("temperature is nan"));
  EXPECT_THAT(check([](SamplingOptions& o) { o.top_p = 1.5; }),
              HasSubstr("top_p is 1.5, expected a number from 0 to 1"));
  EXPECT_THAT(check([](SamplingOptions& o) { o.top_k = -1; }), HasSubstr("top_k is -1, expected 0 (all) or more"));
  EXPECT_THAT(check([](SamplingOptions& o) { o.repetition_penalty = 0; }), HasSubstr("expected a number above 0"));
  EXPECT_THAT(check([](SamplingOptions& o) { o.logit_bias = {{10, 1.0F}}; }),
              HasSubstr("the token 10, expected 0 to 9"));
  EXPECT_THAT(check([](SamplingOptions& o) { o.logit_bias = {{1, 101.0F}}; }), HasSubstr("logit_bias is 101"));
}

}  // namespace
}  // namespace tessera::generate::sampler_test
