#include "generate/answer.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::generate {
namespace {

constexpr std::int64_t kMostLogprobs = 20;

}  // namespace

Answer::Answer(std::span<const std::int64_t> prompt, const GenerateOptions& options, const Tokenizer& tokenizer,
               std::span<const std::int64_t> end_tokens, std::int64_t vocabulary, std::int64_t context)
    : options_(options),
      sampler_(options.sampling, vocabulary, prompt),
      decoder_(tokenizer, true, false),
      stops_(options.stop),
      end_tokens_(end_tokens.begin(), end_tokens.end()) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  require(length > 0, ErrorKind::invalid_argument, "the prompt has no tokens");
  require(length < context, ErrorKind::invalid_argument,
          "the prompt has {} tokens, which leaves no room for an answer in the context of {}", length, context);
  for (const std::int64_t token : prompt)
    require(token >= 0 && token < vocabulary, ErrorKind::invalid_argument,
            "the prompt has the token {}, expected 0 to {}", token, vocabulary - 1);
  require(options.logprobs <= kMostLogprobs, ErrorKind::invalid_argument, "logprobs is {}, expected at most {}",
          options.logprobs, kMostLogprobs);
  result_.prompt_tokens = length;
  most_tokens_ = context - length;
  if (options.max_tokens >= 0) most_tokens_ = std::min(most_tokens_, options.max_tokens);
  if (most_tokens_ == 0) end(FinishReason::length);
}

bool Answer::is_end(std::int64_t token) const {
  return std::ranges::binary_search(end_tokens_, token);
}

std::string Answer::show(std::string text) {
  result_.text += text;
  return text;
}

std::string Answer::end(FinishReason reason) {
  over_ = true;
  result_.finish = reason;
  if (stops_.found()) return {};
  std::string rest = stops_.add(decoder_.finish());
  return show(rest + stops_.finish());
}

std::string Answer::take(std::span<const float> logits) {
  const auto count = static_cast<std::int64_t>(result_.tokens.size());
  const bool may_end = !options_.ignore_eos && count >= options_.min_tokens;
  const std::int64_t token =
      sampler_.sample(logits, may_end ? std::span<const std::int64_t>{} : std::span<const std::int64_t>(end_tokens_));
  sampler_.accept(token);
  GeneratedToken generated{token, 0, {}};
  if (options_.logprobs >= 0) {
    generated.top = most_probable(logits, options_.logprobs, token);
    generated.logprob = std::ranges::find(generated.top, token, &TokenLogprob::token)->logprob;
    generated.top.resize(std::min(generated.top.size(), static_cast<std::size_t>(options_.logprobs)));
  }
  result_.tokens.push_back(std::move(generated));
  if (is_end(token)) return end(FinishReason::stop);
  std::string text = show(stops_.add(decoder_.add(token)));
  if (stops_.found()) return text + end(FinishReason::stop);
  if (count + 1 >= most_tokens_) return text + end(FinishReason::length);
  return text;
}

}  // namespace tessera::generate
