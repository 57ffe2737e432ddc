// Converts text to the token numbers that language models read, and back, as defined by a tokenizer.json of Hugging
// Face's tokenizers library, or by the parts that a GGUF file holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// One text, or a pair of texts, as tokens. All lists have the same length.
struct TokenEncoding {
  std::vector<std::int64_t> ids;
  std::vector<std::string> tokens;           // the tokens in the vocabulary
  std::vector<std::int64_t> type_ids;        // 0: of the first text, 1: of the second, where the file says so
  std::vector<std::int64_t> attention_mask;  // 0: padding
  std::vector<std::int64_t> special_mask;    // 1: added by the tokenizer ([CLS], padding), not found in the text
};

// A range of a text in bytes: from `begin` to before `end`.
struct TextRange {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

struct TokenizerOptions {
  bool add_special_tokens = true;
  // Above 0: the most tokens of an encoding, including special ones; longer encodings are truncated as the file says,
  // or at the end. 0: as the file says.
  std::int64_t max_length = 0;
  // Whether the text of a special token (a control token such as <|im_end|>) is that token. False: it is text like any
  // other. Tokens that were added without being special are always recognised, as in Hugging Face's library.
  bool recognize_special = true;
  // Ranges of the first text in which special tokens are not recognised even so: what users wrote inside a prompt whose
  // frame is the caller's (text::RenderedChat::user_ranges). Ascending, without overlap.
  std::span<const TextRange> literal = {};
  // Whether the beginning-of-text token that the tokenizer adds is left out where the text begins with it, so that a
  // chat template may write it too.
  bool merge_bos = false;
};

// The tokenizer of a language model as a GGUF file defines it (the keys tokenizer.ggml.*), free of the file format.
struct TokenizerParts {
  std::string model;                // gpt2 (byte-level BPE), llama (SentencePiece BPE), gemma4, t5 (Unigram), bert
  std::string pre;                  // for gpt2: the name of the rules that split a text into words
  std::string name;                 // general.name, which alone says that a model is a Phi-3
  std::vector<std::string> tokens;  // by their number
  std::vector<float> scores;        // one per token, for llama and t5
  std::vector<std::int32_t> types;  // one per token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte;
                                    // empty: all are normal
  std::vector<std::string> merges;  // "left right", the most important first, for gpt2 and gemma4
  // Numbers of tokens with a role; negative: there is none.
  std::int64_t bos = -1, eos = -1, eot = -1, eom = -1, unknown = -1, separator = -1, padding = -1, cls = -1;
  // Absent: the default of the model.
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  bool remove_extra_whitespaces = false;
  std::string precompiled_charsmap;  // SentencePiece's table of normalisation, or ""
};

// A tokenizer of the models WordPiece, byte-pair encoding, Unigram or WordLevel. Immutable and thread-safe; copies
// share it.
class Tokenizer {
 public:
  // Throws Error: not_found or io for the file, invalid_argument where it is no tokenizer.json, unsupported for parts
  // that Tessera does not know (by name).
  static Tokenizer load(const std::filesystem::path& path);
  static Tokenizer from_json(std::string_view json);
  // Throws Error: unsupported for a model or rules of splitting that Tessera does not know (by name), invalid_model for
  // parts that contradict each other.
  static Tokenizer from_parts(const TokenizerParts& parts);

  // Encodes a text. Bytes that are not UTF-8 count as U+FFFD. Throws Error(invalid_argument) where a character is in no
  // token and the vocabulary has no token for unknown ones.
  TokenEncoding encode(std::string_view text, const TokenizerOptions& options = {}) const;
  TokenEncoding encode_pair(std::string_view first, std::string_view second,
                            const TokenizerOptions& options = {}) const;
  // The numbers alone of encode(text, options), which is faster.
  std::vector<std::int64_t> encode_ids(std::string_view text, const TokenizerOptions& options = {}) const;
  // Encodes each text by itself, then pads all to the longest (or as the file says).
  std::vector<TokenEncoding> encode_batch(std::span<const std::string> texts,
                                          const TokenizerOptions& options = {}) const;

  // Pads each encoding to so many tokens, on the side and with the token that the file names.
  void pad(std::vector<TokenEncoding>& encodings, std::int64_t length) const;

  // The text of tokens. Numbers that are not in the vocabulary are left out.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens = true) const;

  std::int64_t vocabulary_size() const;  // added tokens included
  // The number of a token, or −1 if the vocabulary lacks it; the token of a number, or "".
  std::int64_t id_of(std::string_view token) const;
  std::string token_of(std::int64_t id) const;

  // The token that begins a text or ends it, or −1 where the parts name none. A tokenizer.json does not say.
  std::int64_t bos() const;
  std::int64_t eos() const;
  // Whether the tokenizer adds the token that begins a text.
  bool adds_bos() const;
  // The tokens after which a model's answer is over, ascending: end of text, of turn and of message as the parts name
  // them, and special tokens with the names that chat models use. A model's configuration may name more.
  const std::vector<std::int64_t>& end_of_generation() const;
  // Whether the token is special: a control token, which decode leaves out.
  bool is_special(std::int64_t id) const;

 private:
  friend class IncrementalDecoder;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Decodes tokens one at a time. Each piece consists of whole UTF-8 characters, and all pieces joined are the bytes of
// Tokenizer::decode of all tokens. Bytes that cannot become a character are replaced by U+FFFD once that is certain.
class IncrementalDecoder {
 public:
  // `begins_text`: the tokens begin a text, so that the space that the tokenizer puts before a text is left out, as
  // decode does; false: they continue one. Throws Error(unsupported) where the text of a token depends on its
  // neighbours (WordPiece).
  explicit IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true, bool begins_text = true);
  ~IncrementalDecoder();
  IncrementalDecoder(IncrementalDecoder&&) noexcept;
  IncrementalDecoder& operator=(IncrementalDecoder&&) noexcept;

  // The text that the token completes, possibly "".
  std::string add(std::int64_t id);
  // The text that was held back for bytes that did not come. The decoder may then decode another text.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
