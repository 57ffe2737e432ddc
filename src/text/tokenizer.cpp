#include "tessera/tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "io/json_nesting.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostFileBytes = 256 << 20;

// Says what is wrong and where, without the names of the library and of its exception, which come first in brackets.
std::string reason_of(const nlohmann::json::exception& error) {
  constexpr std::size_t kMostShown = 300;
  const std::string text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return base::shortened(end == std::string::npos ? text : text.substr(end + 2), kMostShown);
}

}  // namespace

std::vector<std::int64_t> Tokenizer::Impl::tokens_of(std::string_view bytes, bool recognize_special,
                                                     std::span<const TextRange> literal) const {
  std::u32string characters;
  text::SpecialTokens special{recognize_special, {}};
  std::size_t done = 0;
  const auto add = [&](std::size_t end, bool is_literal) {
    const std::u32string part = text::decode_utf8(bytes.substr(done, end - done));
    characters += part;
    if (!literal.empty()) special.literal.insert(special.literal.end(), part.size(), is_literal);
    done = end;
  };
  for (const TextRange& range : literal) {
    require(done <= range.begin && range.begin <= range.end && range.end <= bytes.size(), ErrorKind::invalid_argument,
            "the literal range from {} to {} is not behind {} and within the text of {} bytes", range.begin, range.end,
            done, bytes.size());
    add(range.begin, false);
    add(range.end, true);
  }
  add(bytes.size(), false);
  std::vector<std::int64_t> ids;
  for (text::TextSection& section : pipeline.added->sections(characters, pipeline.normalizer, special)) {
    if (section.id >= 0) {
      ids.push_back(section.id);
      continue;
    }
    for (const text::Word& word : pipeline.pre_tokenizer({{std::move(section.text), section.begins_text}}))
      if (!word.text.empty()) pipeline.model->append_tokens(text::encode_utf8(word.text), ids);
  }
  return ids;
}

void Tokenizer::Impl::encode(std::span<const std::string_view> texts, const TokenizerOptions& options,
                             const std::function<void(std::int64_t, std::int64_t, bool)>& each) const {
  require(options.max_length >= 0, ErrorKind::invalid_argument, "max_length is {}, expected 0 or more",
          options.max_length);
  std::vector<std::vector<std::int64_t>> tokens;
  for (const std::string_view bytes : texts)
    tokens.push_back(
        tokens_of(bytes, options.recognize_special, tokens.empty() ? options.literal : std::span<const TextRange>()));
  const text::TokenFrame plain;
  const text::TokenFrame& around = options.add_special_tokens ? pipeline.frame : plain;
  std::span<const text::FramePart> parts = texts.size() == 1 ? around.single : around.pair;
  const bool repeats_bos = options.merge_bos && !parts.empty() && parts.front().text < 0 && !tokens.front().empty() &&
                           tokens.front().front() == parts.front().id;
  if (repeats_bos) parts = parts.subspan(1);
  text::Truncation cut = pipeline.truncation;
  if (options.max_length > 0) cut.max_length = options.max_length;
  cut.apply(tokens, std::ranges::count_if(parts, [](const text::FramePart& part) { return part.text < 0; }));
  for (const text::FramePart& part : parts) {
    if (part.text < 0) each(part.id, part.type, true);
    else
      for (const std::int64_t id : tokens[static_cast<std::size_t>(part.text)]) each(id, part.type, false);
  }
}

TokenEncoding Tokenizer::Impl::encoding(std::span<const std::string_view> texts,
                                        const TokenizerOptions& options) const {
  TokenEncoding result;
  encode(texts, options, [&](std::int64_t id, std::int64_t type, bool special) {
    result.ids.push_back(id);
    result.tokens.emplace_back(pipeline.token_of(id));
    result.type_ids.push_back(type);
    result.attention_mask.push_back(1);
    result.special_mask.push_back(special ? 1 : 0);
  });
  return result;
}

TokenEncoding Tokenizer::Impl::encoding_alone(std::span<const std::string_view> texts,
                                              const TokenizerOptions& options) const {
  std::vector<TokenEncoding> one{encoding(texts, options)};
  if (pipeline.pads_alone) pipeline.padding.apply(one);
  return std::move(one.front());
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = io::read_file(path, kMostFileBytes);
  try {
    return from_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (Error& error) {
    error.add_context(fmt::format("file {}", path.string()));
    throw;
  }
}

Tokenizer Tokenizer::from_json(std::string_view json) {
  io::check_json_nesting(json, "the tokenizer.json");
  try {
    const nlohmann::json root = nlohmann::json::parse(json);
    require(root.is_object(), ErrorKind::invalid_argument, "a tokenizer.json holds one object, this holds none");
    return Tokenizer(std::make_shared<const Impl>(text::read_pipeline(root)));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::invalid_argument, "this is no tokenizer.json: {}", reason_of(error));
  }
}

Tokenizer Tokenizer::from_parts(const TokenizerParts& parts) {
  return Tokenizer(std::make_shared<const Impl>(text::make_pipeline(parts)));
}

TokenEncoding Tokenizer::encode(std::string_view text, const TokenizerOptions& options) const {
  return impl_->encoding_alone(std::array{text}, options);
}

TokenEncoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                     const TokenizerOptions& options) const {
  return impl_->encoding_alone(std::array{first, second}, options);
}

std::vector<std::int64_t> Tokenizer::encode_ids(std::string_view text, const TokenizerOptions& options) const {
  std::vector<std::int64_t> ids;
  impl_->encode(std::array{text}, options, [&](std::int64_t id, std::int64_t, bool) { ids.push_back(id); });
  return ids;
}

std::vector<TokenEncoding> Tokenizer::encode_batch(std::span<const std::string> texts,
                                                   const TokenizerOptions& options) const {
  std::vector<TokenEncoding> result;
  for (const std::string_view text : texts) result.push_back(impl_->encoding(std::array{text}, options));
  impl_->pipeline.padding.apply(result);
  return result;
}

void Tokenizer::pad(std::vector<TokenEncoding>& encodings, std::int64_t length) const {
  text::Padding padding = impl_->pipeline.padding;
  padding.fixed_length = length;
  padding.multiple_of = 1;
  padding.apply(encodings);
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::string text;
  if (impl_->pipeline.decoder == nullptr) {
    IncrementalDecoder decoder(*this, skip_special_tokens);
    for (const std::int64_t id : ids) text += decoder.add(id);
    return text += decoder.finish();
  }
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    std::string token(impl_->pipeline.token_of(id));
    if (token.empty() || (skip_special_tokens && is_special(id))) continue;
    tokens.push_back(std::move(token));
  }
  for (const std::string& part : impl_->pipeline.decoder(std::move(tokens))) text += part;
  return text;
}

std::int64_t Tokenizer::vocabulary_size() const {
  const text::Vocabulary& vocabulary = impl_->pipeline.model->vocabulary();
  return static_cast<std::int64_t>(vocabulary.size()) + impl_->pipeline.added->count_outside(vocabulary);
}

std::int64_t Tokenizer::id_of(std::string_view token) const {
  return impl_->pipeline.id_of(token);
}

std::string Tokenizer::token_of(std::int64_t id) const {
  return std::string(impl_->pipeline.token_of(id));
}

std::int64_t Tokenizer::bos() const {
  return impl_->pipeline.bos;
}

std::int64_t Tokenizer::eos() const {
  return impl_->pipeline.eos;
}

bool Tokenizer::adds_bos() const {
  return impl_->pipeline.adds(impl_->pipeline.bos);
}

const std::vector<std::int64_t>& Tokenizer::end_of_generation() const {
  return impl_->pipeline.end_of_generation;
}

bool Tokenizer::is_special(std::int64_t id) const {
  return impl_->pipeline.added->is_special(id);
}

}  // namespace tessera
