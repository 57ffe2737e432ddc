// One answer while it is generated: what was drawn, what of its text may be shown, and whether it is over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/sampler.h"
#include "generate/stop_strings.h"
#include "tessera/generate.h"
#include "tessera/tokenizer.h"

namespace tessera::generate {

class Answer {
 public:
  // `end_tokens` are those after which the model's answer is over, ascending. `context` is the most tokens of prompt
  // and answer. Throws Error(invalid_argument) for options out of their ranges and for a prompt without tokens or
  // without room for an answer.
  Answer(std::span<const std::int64_t> prompt, const GenerateOptions& options, const Tokenizer& tokenizer,
         std::span<const std::int64_t> end_tokens, std::int64_t vocabulary, std::int64_t context);

  // Draws the next token. Returns the text that may be shown now; with the last token, all of the rest.
  std::string take(std::span<const float> logits);
  // Ends the answer. Returns the rest of its text.
  std::string end(FinishReason reason);

  bool is_over() const { return over_; }
  // The last token drawn.
  std::int64_t last_token() const { return result_.tokens.back().token; }
  const GeneratedAnswer& result() const { return result_; }
  GeneratedAnswer& result() { return result_; }

 private:
  bool is_end(std::int64_t token) const;
  std::string show(std::string text);

  GenerateOptions options_;
  TokenSampler sampler_;
  IncrementalDecoder decoder_;
  StopStrings stops_;
  std::vector<std::int64_t> end_tokens_;
  std::int64_t most_tokens_ = 0;
  bool over_ = false;
  GeneratedAnswer result_;
};

}  // namespace tessera::generate
