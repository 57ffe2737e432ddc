// Draws the next token from a model's logits.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/generate.h"

namespace tessera::generate {

// Throws Error(invalid_argument), which names the option, its value and its range.
void check_sampling(const SamplingOptions& options, std::int64_t vocabulary);

// The state of one answer: what its next draw depends on beside the logits.
class TokenSampler {
 public:
  // `prompt`: the tokens before the answer. Throws as check_sampling does.
  TokenSampler(SamplingOptions options, std::int64_t vocabulary, std::span<const std::int64_t> prompt);

  // The token that follows, given the logits of all tokens. `forbidden` are never drawn. Logits that are NaN count as
  // those of forbidden tokens; throws Error(failed) when no token is left.
  std::int64_t sample(std::span<const float> logits, std::span<const std::int64_t> forbidden = {});
  // Makes the token the next one of the answer.
  void accept(std::int64_t token);
  // The number of accepted tokens.
  std::int64_t position() const { return position_; }

 private:
  // The logits with bias and penalties.
  std::vector<float> adjusted(std::span<const float> logits, std::span<const std::int64_t> forbidden) const;
  double uniform() const;
  std::int64_t sample_mirostat(class Ranking& ranking);
  void remember(std::int64_t token);

  SamplingOptions options_;
  std::int64_t vocabulary_, position_ = 0;
  std::deque<std::int64_t> window_;                           // the last tokens of prompt and answer
  std::unordered_map<std::int64_t, std::int64_t> in_window_;  // token → occurrences
  std::unordered_map<std::int64_t, std::int64_t> in_answer_;
  double surprise_limit_;  // of mirostat, in bits
};

// The `count` most probable tokens, the most probable first, and `chosen` behind them if it is none of them.
std::vector<TokenLogprob> most_probable(std::span<const float> logits, std::int64_t count, std::int64_t chosen);
// The logarithm of a token's probability.
double log_probability(std::span<const float> logits, std::int64_t token);

}  // namespace tessera::generate
