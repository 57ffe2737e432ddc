#include "generate/language_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "generate/kept_sequence.h"
#include "support/expect_error.h"
#include "support/tiny_language_model.h"

namespace tessera::generate::language_step_test {
namespace {

using test::tiny_language_model;
using test::TinyLanguageModel;
using test::TinySizes;

std::vector<std::int64_t> some_tokens(std::int64_t count, std::int64_t vocabulary, std::int64_t seed = 1) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back((i * i * 7 + i * 3 + seed * 11) % vocabulary);
  return tokens;
}

using Logits = std::vector<float>;  // [tokens, vocabulary]

void append(Logits& to, std::span<const float> rows) {
  to.insert(to.end(), rows.begin(), rows.end());
}

// The logits of all tokens, which go in chunks of `chunk`.
Logits run_chunked(ModelStep& step, std::int64_t sequence, std::span<const std::int64_t> tokens, std::size_t chunk) {
  Logits logits;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    std::vector<StepRow> rows;
    for (std::size_t i = begin; i < std::min(begin + chunk, tokens.size()); ++i) rows.push_back({tokens[i], sequence});
    std::vector<std::int64_t> wanted(rows.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    append(logits, step.run(rows, wanted, {}));
  }
  return logits;
}

// The same bits, or the first element that differs.
void expect_same(const Logits& found, const Logits& expected, const std::string& how) {
  ASSERT_EQ(found.size(), expected.size()) << how;
  const auto [a, b] = std::ranges::mismatch(found, expected);
  EXPECT_TRUE(a == found.end()) << how << ": element " << a - found.begin() << " of " << found.size() << " is " << *a
                                << ", expected " << *b;
}

// Matrices of f32 with sizes that no vector register divides, or of q8_0.
TinySizes sizes_of(base::BlockFormat format) {
  TinySizes sizes;
  if (format != base::BlockFormat::f32) sizes.hidden = 96, sizes.wide = 160, sizes.head_size = 24;
  sizes.format = format;
  return sizes;
}

LanguageStepOptions options_of(DType cache, int threads = 2, std::int64_t cache_tokens = 0) {
  LanguageStepOptions options;
  options.cache_type = cache;
  options.threads = threads;
  options.cache_tokens = cache_tokens;
  return options;
}

struct SameBits : testing::TestWithParam<std::tuple<std::string, base::BlockFormat, DType>> {
  SameBits() : model(tiny_language_model(std::get<0>(GetParam()), sizes_of(std::get<1>(GetParam())))) {
    tokens = some_tokens(70, 61);
  }
  TinyLanguageModel model;
  std::vector<std::int64_t> tokens;
  DType cache = std::get<2>(GetParam());
};

TEST_P(SameBits, WhateverTheChunkAndTheThreads) {
  LanguageStep whole(model, model, options_of(cache));
  const Logits expected = run_chunked(whole, whole.open(), tokens, 70);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{33}}) {
    for (const int threads : {1, 2, 3}) {
      LanguageStep step(model, model, options_of(cache, threads));
      expect_same(run_chunked(step, step.open(), tokens, chunk), expected,
                  fmt::format("chunks of {}, {} threads", chunk, threads));
    }
  }
}

TEST_P(SameBits, AmongOthers) {
  LanguageStep alone(model, model, options_of(cache));
  const Logits expected = run_chunked(alone, alone.open(), tokens, 70);
  constexpr std::int64_t kOthers = 63;
  LanguageStep step(model, model, options_of(cache, 2, 96 * (kOthers + 1)));
  std::vector<std::int64_t> sequences;
  for (std::int64_t i = 0; i <= kOthers; ++i) sequences.push_back(step.open());
  Logits found;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    std::vector<StepRow> rows;
    for (std::int64_t s = 0; s <= kOthers; ++s) {
      if (s > 0 && t > 40) break;  // the others end before
      // The sequence that is looked at moves among the others.
      const std::int64_t at = (s + static_cast<std::int64_t>(t)) % (t > 40 ? 1 : kOthers + 1);
      rows.push_back({at == 0 ? tokens[t] : (tokens[t] + at) % 61, sequences[static_cast<std::size_t>(at)]});
    }
    std::int64_t own = 0;
    while (rows[static_cast<std::size_t>(own)].sequence != sequences[0]) ++own;
    append(found, step.run(rows, std::vector{own}, {}));
  }
  expect_same(found, expected, "among others");
}

INSTANTIATE_TEST_SUITE_P(Models, SameBits,
                         testing::Values(std::tuple{"llama", base::BlockFormat::f32, DType::f16},
                                         std::tuple{"llama", base::BlockFormat::q8_0, DType::f16},
                                         std::tuple{"llama", base::BlockFormat::q8_0, DType::i8},
                                         std::tuple{"gemma2", base::BlockFormat::q8_0, DType::f16},
                                         std::tuple{"qwen3", base::BlockFormat::f32, DType::i8},
                                         std::tuple{"phi3", base::BlockFormat::q8_0, DType::f16}));

class LanguageStepTest : public testing::Test {
 protected:
  const TinyLanguageModel model = tiny_language_model("llama", sizes_of(base::BlockFormat::q8_0));
  const std::vector<std::int64_t> tokens = some_tokens(70, 61);
};

// Cancels the run before one of its steps.
struct EndingGate : StepGate {
  EndingGate(int steps, Cancellation& of) : after(steps), cancellation(of) {}
  bool may_pass(const StepInfo&) override {
    if (++asked == after) cancellation.cancel();
    return true;
  }
  void wait(const StepInfo&) override {}

  const int after;
  Cancellation& cancellation;
  int asked = 0;
};

struct CancelledSteps : LanguageStepTest, testing::WithParamInterface<DType> {
  DType cache = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Caches, CancelledSteps, testing::Values(DType::f16, DType::i8));

TEST_P(CancelledSteps, LeaveTheCacheAsItWas) {
  LanguageStep step(model, model, options_of(cache));
  const Logits expected = run_chunked(step, step.open(), tokens, 70);
  const std::span<const std::int64_t> all = tokens;
  bool whole = false;
  int after = 1;
  // Before each step of the plan, up to the last ones, which write the cache.
  for (; !whole; ++after) {
    LanguageStep stopped(model, model, options_of(cache));
    const std::int64_t sequence = stopped.open();
    Logits found = run_chunked(stopped, sequence, all.first(40), 40);
    Cancellation cancellation;
    EndingGate gate(after, cancellation);
    RunOptions options;
    options.gate = &gate;
    options.cancellation = &cancellation;
    // Tokens that would change all that follows.
    const std::vector<StepRow> rows(20, StepRow{5, sequence});
    try {
      stopped.run(rows, std::vector<std::int64_t>{19}, options);
      whole = true;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::cancelled);
      append(found, run_chunked(stopped, sequence, all.subspan(40), 7));
      expect_same(found, expected, fmt::format("cancelled before step {}", after));
    }
  }
  EXPECT_GT(after, 25);
}

// A step that ends because of its time limit leaves the cache as it was.
TEST_F(LanguageStepTest, GoesOnAfterStepsThatFailed) {
  LanguageStep step(model, model, options_of(DType::f16));
  const Logits expected = run_chunked(step, step.open(), tokens, 70);
  const std::span<const std::int64_t> all = tokens;
  LanguageStep failing(model, model, options_of(DType::f16));
  const std::int64_t sequence = failing.open();
  Logits found = run_chunked(failing, sequence, all.first(40), 40);
  RunOptions options;
  options.time_limit_ns = 1;
  const std::vector<StepRow> rows(20, StepRow{5, sequence});
  test::expect_error_containing(ErrorKind::over_budget, "limit",
                                [&] { failing.run(rows, std::vector<std::int64_t>{19}, options); });
  append(found, run_chunked(failing, sequence, all.subspan(40), 7));
  expect_same(found, expected, "after a step that failed");
}

TEST_F(LanguageStepTest, LeavesSequencesAsTheyWereWhenPagesRunOut) {
  LanguageStep step(model, model, options_of(DType::f16, 2, 64));
  const Logits expected = run_chunked(step, step.open(), std::span(tokens).first(40), 40);
  LanguageStep small(model, model, options_of(DType::f16, 2, 64));
  const std::int64_t a = small.open(), b = small.open();
  const Logits begun = run_chunked(small, a, std::span(tokens).first(20), 20);
  std::vector<StepRow> rows(70, StepRow{3, b});
  rows.insert(rows.begin(), StepRow{4, a});
  test::expect_error_containing(ErrorKind::over_budget, "all pages of the cache of keys and values are taken",
                                [&] { small.run(rows, std::vector<std::int64_t>{0}, {}); });
  Logits found = begun;
  append(found, run_chunked(small, a, std::span(tokens).subspan(20, 20), 20));
  expect_same(found, expected, "after a step without pages");
}

TEST_F(LanguageStepTest, RefusesRowsThatCannotBe) {
  LanguageStep step(model, model, options_of(DType::f16));
  const std::int64_t a = step.open();
  const std::vector<std::int64_t> first{0};
  test::expect_error(ErrorKind::invalid_argument, "token 61 is none of the 61 of the vocabulary",
                     [&] { step.run(std::vector<StepRow>{{61, a}}, first, {}); });
  test::expect_error(ErrorKind::invalid_argument, "row 1 is wanted of a step of 1",
                     [&] { step.run(std::vector<StepRow>{{1, a}}, std::vector<std::int64_t>{1}, {}); });
  test::expect_error(ErrorKind::invalid_argument, "sequence 9 is not open",
                     [&] { step.run(std::vector<StepRow>{{1, 9}}, first, {}); });
  test::expect_error(ErrorKind::invalid_argument, "a step of 0 rows, expected 1 to 512", [&] { step.run({}, {}, {}); });
  LanguageStepOptions longer = options_of(DType::f16);
  longer.context = 129;
  test::expect_error(ErrorKind::invalid_argument, "a context of 129 tokens, but the model was trained for 128",
                     [&] { LanguageStep(model, model, longer); });
}

// Pages that were given back hold old keys, which no later sequence sees.
TEST_F(LanguageStepTest, SequencesDoNotSeeWhatPagesHeldBefore) {
  LanguageStep step(model, model, options_of(DType::f16, 2, 96));
  const std::int64_t first = step.open();
  const Logits expected = run_chunked(step, first, tokens, 70);
  step.close(first);
  const std::int64_t other = step.open();
  run_chunked(step, other, some_tokens(90, 61, 5), 90);
  step.close(other);
  expect_same(run_chunked(step, step.open(), tokens, 16), expected, "on used pages");
}

std::int64_t total(const MemoryUse& use) {
  return use.weights_bytes + use.packed_weights_bytes + use.variables_bytes + use.plans_bytes + use.results_bytes;
}

TEST_F(LanguageStepTest, MemoryIsFlat) {
  LanguageStep step(model, model, options_of(DType::f16));
  const auto answer = [&] {
    const std::int64_t sequence = step.open();
    run_chunked(step, sequence, tokens, 16);
    run_chunked(step, sequence, std::span(tokens).first(20), 1);
    step.close(sequence);
  };
  answer();
  const std::int64_t before = total(step.memory());
  const std::int64_t variables = step.memory().variables_bytes, packed = step.memory().packed_weights_bytes;
  for (int i = 0; i < 20; ++i) answer();
  EXPECT_EQ(total(step.memory()), before);
  // Other sizes make other plans, which share the packed weights.
  for (std::size_t chunk = 1; chunk <= 64; chunk *= 2) {
    const std::int64_t sequence = step.open();
    run_chunked(step, sequence, tokens, chunk);
    step.close(sequence);
  }
  EXPECT_EQ(step.memory().variables_bytes, variables);
  EXPECT_LE(step.memory().packed_weights_bytes, packed * 5 / 4);
}

// Turns of a conversation in a kept sequence, while another one takes most of the cache between them.
TEST(LanguageStep, AKeptSequenceHasTheBitsOfANewOne) {
  const TinyLanguageModel model = tiny_language_model("qwen3", sizes_of(base::BlockFormat::q8_0));
  LanguageStepOptions options;
  options.cache_tokens = 128;
  LanguageStep step(model, model, options);
  KeptSequence kept(step);
  const std::vector<std::int64_t> first = some_tokens(70, step.vocabulary());
  std::vector<std::int64_t> second(first.begin(), first.begin() + 60);
  for (const std::int64_t token : some_tokens(30, step.vocabulary(), 5)) second.push_back(token);
  const auto go_on = [&](std::span<const std::int64_t> prompt, std::size_t expected) {
    const std::size_t begin = kept.begin(prompt);
    EXPECT_EQ(begin, expected);
    const Logits logits = run_chunked(step, kept.number(), prompt.subspan(begin), 16);
    for (const std::int64_t token : prompt.subspan(begin)) kept.append(token);
    kept.end();
    // The same prompt in a sequence of its own.
    LanguageStep other(model, model, options);
    const Logits alone = run_chunked(other, other.open(), prompt, 64);
    const auto skipped = static_cast<std::ptrdiff_t>(begin) * step.vocabulary();
    EXPECT_EQ(logits, Logits(alone.begin() + skipped, alone.end()));
  };
  go_on(first, 0);
  go_on(second, 60);
  const std::int64_t large = step.open();
  run_chunked(step, large, some_tokens(64, step.vocabulary()), 64);  // takes the page of tokens 64 and on
  step.close(large);
  go_on(second, 64);
}

}  // namespace
}  // namespace tessera::generate::language_step_test
