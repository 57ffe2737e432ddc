// Tokens to text, one token at a time.
#include <utility>

#include "base/error.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace tessera {

struct IncrementalDecoder::State {
  std::shared_ptr<const Tokenizer::Impl> tokenizer;
  bool skips_special, begins_text;
  std::string held;          // bytes that are no text as yet
  bool holds_bytes = false;  // `held` is a run of byte tokens
  bool is_first = true;      // no token was decoded
  bool is_at_start = true;   // no text was given out

  const text::TokenizerPipeline& pipeline() const { return tokenizer->pipeline; }

  // Gives out bytes as text, but for the space that the tokenizer put before it.
  std::string given(std::string text) {
    if (text.empty()) return text;
    if (std::exchange(is_at_start, false) && begins_text && pipeline().pieces.drops_first_space && text.front() == ' ')
      text.erase(0, 1);
    return text;
  }

  // The text of all that is held.
  std::string released() {
    std::string bytes = std::exchange(held, {});
    std::string text = text::encode_utf8(text::decode_utf8(bytes));
    if (std::exchange(holds_bytes, false) && text != bytes) {
      text.clear();
      for (std::size_t i = 0; i < bytes.size(); ++i) text::append_utf8(text, U'\uFFFD');
    }
    return text;
  }
};

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens, bool begins_text)
    : state_(std::make_unique<State>(State{tokenizer.impl_, skip_special_tokens, begins_text, {}})) {
  require(state_->pipeline().pieces.bytes != nullptr, ErrorKind::unsupported,
          "the text of this tokenizer's tokens depends on the tokens beside them, so that they cannot be decoded one "
          "at a time; decode all of them together");
}

IncrementalDecoder::~IncrementalDecoder() = default;
IncrementalDecoder::IncrementalDecoder(IncrementalDecoder&&) noexcept = default;
IncrementalDecoder& IncrementalDecoder::operator=(IncrementalDecoder&&) noexcept = default;

std::string IncrementalDecoder::add(std::int64_t id) {
  State& state = *state_;
  const text::TokenizerPipeline& pipeline = state.pipeline();
  const std::string_view token = pipeline.token_of(id);
  if (token.empty() || (state.skips_special && pipeline.added->is_special(id))) return {};
  const bool is_first = std::exchange(state.is_first, false) && state.begins_text;
  if (pipeline.pieces.groups_bytes) {
    if (const auto byte = text::byte_of_token(token)) {
      state.holds_bytes = true;
      state.held.push_back(*byte);
      return {};
    }
    std::string text = state.released();
    text += pipeline.pieces.bytes(id, token, is_first);
    return state.given(std::move(text));
  }
  state.held += pipeline.pieces.bytes(id, token, is_first);
  const std::size_t whole = state.held.size() - text::incomplete_bytes(state.held);
  std::string rest = state.held.substr(whole);
  state.held.erase(whole);
  std::string text = state.released();
  state.held = std::move(rest);
  return state.given(std::move(text));
}

std::string IncrementalDecoder::finish() {
  std::string text = state_->given(state_->released());
  state_->is_first = state_->is_at_start = true;
  return text;
}

}  // namespace tessera
