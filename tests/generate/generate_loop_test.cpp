#include "generate/generate_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "support/error_of.h"

namespace tessera::generate::generate_loop_test {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kVocabulary = 27, kEnd = 26;

// The letters a to z, and a token that ends the text.
Tokenizer letters() {
  TokenizerParts parts;
  parts.model = "llama";
  for (char c = 'a'; c <= 'z'; ++c) parts.tokens.emplace_back(1, c);
  parts.tokens.emplace_back("<end>");
  parts.scores.assign(27, 0);
  parts.types.assign(26, 1);
  parts.types.push_back(3);
  parts.eos = kEnd;
  return Tokenizer::from_parts(parts);
}

// A model whose most probable token follows from the last two tokens of a sequence: the letter after their sum.
class ToyStep final : public ModelStep {
 public:
  std::int64_t vocabulary() const override { return kVocabulary; }
  std::int64_t context() const override { return context_; }
  std::int64_t most_rows() const override { return 8; }
  std::int64_t open() override {
    sequences_[next_] = {};
    return next_++;
  }
  void close(std::int64_t sequence) override { EXPECT_EQ(sequences_.erase(sequence), 1u); }
  std::int64_t length(std::int64_t sequence) const override {
    return static_cast<std::int64_t>(sequences_.at(sequence).size());
  }
  void truncate(std::int64_t sequence, std::int64_t length) override {
    EXPECT_LE(length, this->length(sequence));
    sequences_.at(sequence).resize(static_cast<std::size_t>(length));
  }
  void set_idle(std::int64_t sequence, bool idle) override {
    if (idle) idle_.insert(sequence);
    else idle_.erase(sequence);
  }
  std::span<const float> run(std::span<const StepRow> rows, std::span<const std::int64_t> wanted,
                             const RunOptions&) override {
    EXPECT_LE(rows.size(), 8u);
    require(steps_.size() != fails_at_, ErrorKind::failed, "the step fails");
    steps_.push_back(rows.size());
    std::vector<std::int64_t> next;
    for (const StepRow& row : rows) {
      EXPECT_FALSE(idle_.contains(row.sequence));
      std::vector<std::int64_t>& tokens = sequences_.at(row.sequence);
      tokens.push_back(row.token);
      next.push_back((tokens.back() + (tokens.size() > 1 ? tokens[tokens.size() - 2] : 0) + 1) % kVocabulary);
    }
    logits_.assign(wanted.size() * kVocabulary, 0);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      logits_[i * kVocabulary + static_cast<std::size_t>(next[static_cast<std::size_t>(wanted[i])])] = 5;
    return logits_;
  }

  std::int64_t context_ = 40, next_ = 0;
  std::size_t fails_at_ = 1000;
  std::map<std::int64_t, std::vector<std::int64_t>> sequences_;
  std::set<std::int64_t> idle_;
  std::vector<std::size_t> steps_;  // the rows of each
  std::vector<float> logits_;
};

GenerateOptions greedy() {
  GenerateOptions options;
  options.sampling.temperature = 0;
  return options;
}

std::vector<std::int64_t> tokens_of(const GeneratedAnswer& generation) {
  std::vector<std::int64_t> tokens;
  for (const GeneratedToken& token : generation.tokens) tokens.push_back(token.token);
  return tokens;
}

std::vector<GeneratedAnswer> generate(ToyStep& step, const std::vector<std::vector<std::int64_t>>& prompts,
                                      const GenerateOptions& options, std::int64_t chunk = 512) {
  const Tokenizer tokenizer = letters();
  const std::int64_t end[] = {kEnd};
  std::vector<GeneratedAnswer> result = generate_answers(step, tokenizer, end, prompts, chunk, options, nullptr);
  EXPECT_TRUE(step.sequences_.empty());
  return result;
}

TEST(GenerateLoop, GoesOnUntilTheModelEndsItsAnswer) {
  ToyStep step;
  // 1 + 2 + 1 = 4, 7, 12, 20, 33 mod 27 = 6, 0, 7, 8, 16, 25, 42 mod 27 = 15, 14, 3, 18, 22, 14, 10, 25, 9, 8, 18, 0,
  // 19, 20, 13, 7, 21, 2, 24, 0, 25, 26.
  const GeneratedAnswer answer = generate(step, {{1, 2}}, greedy())[0];
  EXPECT_EQ(answer.finish, FinishReason::stop);
  EXPECT_EQ(answer.tokens.size(), 32u);
  EXPECT_EQ(answer.tokens.back().token, kEnd);
  EXPECT_EQ(answer.text, "ehmugahiqzpodswokzjisatunhvcyaz");
  EXPECT_EQ(answer.prompt_tokens, 2);
}

TEST(GenerateLoop, AnswersAreTheSameTogetherAloneAndInChunks) {
  const std::vector<std::vector<std::int64_t>> prompts{{1, 2}, {3}, {5, 4, 3, 2, 1, 0, 9, 8, 7, 6, 5}, {0, 0, 0}};
  GenerateOptions options;
  options.max_tokens = 12;
  options.sampling.temperature = 3;
  std::vector<std::vector<std::int64_t>> alone;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    ToyStep step;
    options.sampling.choice = i;
    alone.push_back(tokens_of(generate(step, {prompts[i]}, options)[0]));
  }
  options.sampling.choice = 0;
  for (const std::int64_t chunk : {1, 3, 512}) {
    ToyStep step;
    const std::vector<GeneratedAnswer> together = generate(step, prompts, options, chunk);
    for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(tokens_of(together[i]), alone[i]) << chunk << " " << i;
  }
}

TEST(GenerateLoop, StreamsTheTextAndProgress) {
  ToyStep step;
  GenerateOptions options = greedy();
  options.max_tokens = 5;
  std::map<std::size_t, std::string> streamed;
  options.on_text = [&](const GeneratedText& piece) {
    streamed[piece.answer] += piece.text;
    return true;
  };
  std::vector<std::int64_t> progress;
  options.on_prompt = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, 12);
    progress.push_back(done);
  };
  const std::vector<GeneratedAnswer> answers = generate(step, {{1, 2}, std::vector<std::int64_t>(10, 3)}, options);
  EXPECT_EQ(streamed[0], answers[0].text);
  EXPECT_EQ(streamed[1], answers[1].text);
  EXPECT_EQ(answers[1].finish, FinishReason::length);
  EXPECT_EQ(answers[1].tokens.size(), 5u);
  EXPECT_THAT(progress, ElementsAre(8, 12));
  EXPECT_EQ(step.steps_[1], 5u);  // a row of the first answer beside the rest of the second prompt
}

TEST(GenerateLoop, EndsWhereItIsAsked) {
  ToyStep step;
  GenerateOptions options = greedy();
  options.stop = {"uga"};
  GeneratedAnswer answer = generate(step, {{1, 2}}, options)[0];
  EXPECT_EQ(answer.text, "ehm");
  EXPECT_EQ(answer.finish, FinishReason::stop);
  EXPECT_EQ(answer.tokens.size(), 6u);
  options = greedy();
  step.context_ = 8;
  answer = generate(step, {{1, 2}}, options)[0];
  EXPECT_EQ(answer.text, "ehmuga");
  EXPECT_EQ(answer.finish, FinishReason::length);
  options.max_tokens = 0;
  step.steps_.clear();
  answer = generate(step, {{1, 2}}, options)[0];
  EXPECT_EQ(answer.finish, FinishReason::length);
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_TRUE(step.steps_.empty());
}

TEST(GenerateLoop, EndTokensCanBeForbidden) {
  ToyStep step;
  GenerateOptions options = greedy();
  // 25 follows 12 and 12, and then 26 + 12 ends it: 12 + 25 + 1 = 38 mod 27 = 11 does not.
  EXPECT_EQ(generate(step, {{25, 0}}, options)[0].tokens.size(), 1u);
  options.min_tokens = 1;
  EXPECT_GT(generate(step, {{25, 0}}, options)[0].tokens.size(), 1u);
  options = greedy();
  options.ignore_eos = true;
  const GeneratedAnswer answer = generate(step, {{1, 2}}, options)[0];
  EXPECT_EQ(answer.finish, FinishReason::length);
  EXPECT_EQ(answer.tokens.size(), 38u);
}

TEST(GenerateLoop, IsCancelledBetweenSteps) {
  ToyStep step;
  GenerateOptions options = greedy();
  options.on_text = [](const GeneratedText& piece) { return piece.text != "m"; };
  GeneratedAnswer answer = generate(step, {{1, 2}}, options)[0];
  EXPECT_EQ(answer.text, "ehm");
  EXPECT_EQ(answer.finish, FinishReason::cancelled);
  Cancellation cancellation;
  options = greedy();
  options.cancellation = &cancellation;
  options.on_text = [&](const GeneratedText& piece) {
    if (piece.text == "u") cancellation.cancel();
    return true;
  };
  answer = generate(step, {{1, 2}}, options)[0];
  EXPECT_EQ(answer.text, "ehmu");
  EXPECT_EQ(answer.finish, FinishReason::cancelled);
}

TEST(GenerateLoop, AFailedStepClosesTheSequences) {
  ToyStep step;
  step.fails_at_ = 3;
  EXPECT_THAT(error_of([&] { generate(step, {{1, 2}}, greedy()); }), HasSubstr("the step fails"));
  EXPECT_TRUE(step.sequences_.empty());
}

TEST(GenerateLoop, PromptsAreChecked) {
  ToyStep step;
  EXPECT_THAT(error_of([&] { generate(step, {{}}, greedy()); }), HasSubstr("the prompt has no tokens"));
  EXPECT_THAT(error_of([&] { generate(step, {{27}}, greedy()); }), HasSubstr("the token 27, expected 0 to 26"));
  EXPECT_THAT(error_of([&] { generate(step, {std::vector<std::int64_t>(40, 1)}, greedy()); }),
              HasSubstr("the prompt has 40 tokens, which leaves no room for an answer in the context of 40"));
}

TEST(GenerateLoop, ListsTheMostProbableTokens) {
  ToyStep step;
  GenerateOptions options = greedy();
  options.max_tokens = 2;
  options.logprobs = 2;
  const GeneratedAnswer answer = generate(step, {{1, 2}}, options)[0];
  const double expected = 5 - std::log(std::exp(5.0) + 26);
  EXPECT_NEAR(answer.tokens[0].logprob, expected, 1e-9);
  ASSERT_EQ(answer.tokens[0].top.size(), 2u);
  EXPECT_EQ(answer.tokens[0].top[0].token, 4);
  EXPECT_EQ(answer.tokens[0].top[1].token, 0);
}

// The answer to a prompt that goes on in a kept sequence.
GeneratedAnswer answer_kept(ToyStep& step, KeptSequence& kept, const std::vector<std::int64_t>& prompt,
                            const GenerateOptions& options, GenerationStats* stats = nullptr) {
  const Tokenizer tokenizer = letters();
  const std::int64_t end[] = {kEnd};
  return generate_answers(step, tokenizer, end, {&prompt, 1}, 512, options, stats, &kept)[0];
}

TEST(GenerateLoop, AKeptSequenceGoesOnWhereThePromptDiffers) {
  GenerateOptions options = greedy();
  options.max_tokens = 3;
  ToyStep step;
  KeptSequence kept(step);
  GenerationStats stats;
  const GeneratedAnswer first = answer_kept(step, kept, {1, 2, 3, 4}, options, &stats);
  EXPECT_EQ(stats.cached_tokens, 0);
  EXPECT_THAT(step.steps_, ElementsAre(4, 1, 1));
  EXPECT_THAT(step.idle_, ElementsAre(kept.number()));
  // The next turn begins with the prompt and the answer, of which the last token was never a row of a step.
  std::vector<std::int64_t> turn{1, 2, 3, 4};
  for (const GeneratedToken& token : first.tokens) turn.push_back(token.token);
  turn.push_back(9);
  step.steps_.clear();
  const GeneratedAnswer second = answer_kept(step, kept, turn, options, &stats);
  EXPECT_EQ(stats.cached_tokens, 6);
  EXPECT_EQ(stats.prompt_tokens, 8);
  EXPECT_THAT(step.steps_, ElementsAre(2, 1, 1));
  ToyStep other;
  EXPECT_EQ(tokens_of(second), tokens_of(generate(other, {turn}, options)[0]));
  // Another conversation, which differs from its second token on.
  answer_kept(step, kept, {1, 7}, options, &stats);
  EXPECT_EQ(stats.cached_tokens, 1);
  // The same prompt: its last token is computed for its logits.
  answer_kept(step, kept, {1, 7}, options, &stats);
  EXPECT_EQ(stats.cached_tokens, 1);
}

TEST(GenerateLoop, AKeptSequenceOutlivesFailuresAndLostTokens) {
  GenerateOptions options = greedy();
  options.max_tokens = 3;
  ToyStep step, other;
  KeptSequence kept(step);
  step.fails_at_ = 2;
  EXPECT_THAT(error_of([&] { answer_kept(step, kept, {1, 2, 3, 4}, options); }), HasSubstr("the step fails"));
  EXPECT_THAT(step.idle_, ElementsAre(kept.number()));
  step.fails_at_ = 1000;
  GenerationStats stats;
  const std::vector<std::int64_t> prompt{1, 2, 3, 4, 5};
  const std::vector<std::int64_t> expected = tokens_of(generate(other, {prompt}, options)[0]);
  EXPECT_EQ(tokens_of(answer_kept(step, kept, prompt, options, &stats)), expected);
  EXPECT_EQ(stats.cached_tokens, 4);
  step.truncate(kept.number(), 2);  // as if another sequence had needed the memory
  EXPECT_EQ(tokens_of(answer_kept(step, kept, prompt, options, &stats)), expected);
  EXPECT_EQ(stats.cached_tokens, 2);
  EXPECT_THAT(error_of([&] {
                const std::vector<std::int64_t> prompts[] = {{1}, {2}};
                generate_answers(step, letters(), {}, prompts, 512, options, nullptr, &kept);
              }),
              HasSubstr("goes on with one prompt, not 2"));
}

}  // namespace
}  // namespace tessera::generate::generate_loop_test
