// The state that the copies of a Tokenizer and its decoders share.
#pragma once

#include "tessera/tokenizer.h"
#include "text/pipeline.h"

namespace tessera {

struct Tokenizer::Impl {
  text::TokenizerPipeline pipeline;

  // The tokens of a text, without those that the tokenizer adds.
  std::vector<std::int64_t> tokens_of(std::string_view bytes, bool recognize_special,
                                      std::span<const TextRange> literal) const;
  // One text or two with the tokens around them, cut as asked for. `each` is called with number, type and whether the
  // token was added.
  void encode(std::span<const std::string_view> texts, const TokenizerOptions& options,
              const std::function<void(std::int64_t, std::int64_t, bool)>& each) const;
  TokenEncoding encoding(std::span<const std::string_view> texts, const TokenizerOptions& options) const;
  TokenEncoding encoding_alone(std::span<const std::string_view> texts, const TokenizerOptions& options) const;
};

}  // namespace tessera
