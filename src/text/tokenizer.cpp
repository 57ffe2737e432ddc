#include "tessera/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/length.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/unicode.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostFileBytes = 256 << 20;

const nlohmann::json& part_of(const nlohmann::json& root, const char* key) {
  static const nlohmann::json none;
  const auto found = root.find(key);
  return found == root.end() ? none : *found;
}

// Says what is wrong and where, without the names of the library and of its exception, which come first in brackets.
std::string reason_of(const nlohmann::json::exception& error) {
  constexpr std::size_t kMostShown = 300;
  const std::string text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return base::shortened(end == std::string::npos ? text : text.substr(end + 2), kMostShown);
}

}  // namespace

struct Tokenizer::Impl {
  std::unique_ptr<text::TokenModel> model;
  text::Normalizer normalizer;
  std::optional<text::AddedTokens> added;
  text::PreTokenizer pre_tokenizer;
  text::TokenFrame frame;
  text::Decoder decoder;
  text::Truncation truncation;
  bool pads_alone = false;  // an encoding outside a batch is padded too
  text::Padding padding;

  explicit Impl(const nlohmann::json& root)
      : model(text::make_token_model(part_of(root, "model"))),
        normalizer(text::make_normalizer(part_of(root, "normalizer"))),
        pre_tokenizer(text::make_pre_tokenizer(part_of(root, "pre_tokenizer"))),
        frame(text::make_frame(part_of(root, "post_processor"))),
        decoder(text::make_decoder(part_of(root, "decoder"))),
        truncation(text::read_truncation(part_of(root, "truncation"))),
        pads_alone(!part_of(root, "padding").is_null()),
        padding(text::read_padding(part_of(root, "padding"))) {
    added.emplace(part_of(root, "added_tokens"), normalizer);
    if (pads_alone) return;
    for (const char* name : {"[PAD]", "<pad>", "<|endoftext|>"}) {
      if (id_of(name) < 0) continue;
      padding.id = id_of(name);
      padding.token = name;
      break;
    }
  }

  std::int64_t id_of(std::string_view token) const {
    const std::int64_t id = added->vocabulary().id_of(token);
    return id >= 0 ? id : model->vocabulary().id_of(token);
  }

  std::string token_of(std::int64_t id) const {
    const std::string_view token = added->vocabulary().token_of(id);
    return std::string(token.empty() ? model->vocabulary().token_of(id) : token);
  }

  std::vector<std::int64_t> tokens_of(std::string_view bytes) const {
    std::vector<std::int64_t> ids;
    for (text::TextSection& section : added->sections(text::decode_utf8(bytes), normalizer)) {
      if (section.id >= 0) {
        ids.push_back(section.id);
        continue;
      }
      for (const text::Word& word : pre_tokenizer({{std::move(section.text), section.begins_text}}))
        if (!word.text.empty()) model->append_tokens(text::encode_utf8(word.text), ids);
    }
    return ids;
  }

  TokenEncoding encode(const std::vector<std::string_view>& given, const TokenizerOptions& options) const {
    require(options.max_length >= 0, ErrorKind::invalid_argument, "max_length is {}, expected 0 or more",
            options.max_length);
    std::vector<std::vector<std::int64_t>> texts;
    for (const std::string_view bytes : given) texts.push_back(tokens_of(bytes));
    const text::TokenFrame plain;
    const text::TokenFrame& around = options.add_special_tokens ? frame : plain;
    const std::vector<text::FramePart>& parts = texts.size() == 1 ? around.single : around.pair;
    text::Truncation cut = truncation;
    if (options.max_length > 0) cut.max_length = options.max_length;
    cut.apply(texts, std::ranges::count_if(parts, [](const text::FramePart& part) { return part.text < 0; }));
    TokenEncoding result;
    const auto add = [&](std::int64_t id, std::int64_t type, bool special) {
      result.ids.push_back(id);
      result.tokens.push_back(token_of(id));
      result.type_ids.push_back(type);
      result.attention_mask.push_back(1);
      result.special_mask.push_back(special ? 1 : 0);
    };
    for (const text::FramePart& part : parts) {
      if (part.text < 0) add(part.id, part.type, true);
      else
        for (const std::int64_t id : texts[static_cast<std::size_t>(part.text)]) add(id, part.type, false);
    }
    return result;
  }

  TokenEncoding encode_alone(const std::vector<std::string_view>& given, const TokenizerOptions& options) const {
    std::vector<TokenEncoding> one{encode(given, options)};
    if (pads_alone) padding.apply(one);
    return std::move(one.front());
  }
};

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
  try {
    const nlohmann::json root = nlohmann::json::parse(json);
    require(root.is_object(), ErrorKind::invalid_argument, "a tokenizer.json holds one object, this holds none");
    return Tokenizer(std::make_shared<const Impl>(root));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::invalid_argument, "this is no tokenizer.json: {}", reason_of(error));
  }
}

TokenEncoding Tokenizer::encode(std::string_view text, const TokenizerOptions& options) const {
  return impl_->encode_alone({text}, options);
}

TokenEncoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                     const TokenizerOptions& options) const {
  return impl_->encode_alone({first, second}, options);
}

std::vector<TokenEncoding> Tokenizer::encode_batch(std::span<const std::string> texts,
                                                   const TokenizerOptions& options) const {
  std::vector<TokenEncoding> result;
  for (const std::string& text : texts) result.push_back(impl_->encode({text}, options));
  impl_->padding.apply(result);
  return result;
}

void Tokenizer::pad(std::vector<TokenEncoding>& encodings, std::int64_t length) const {
  text::Padding padding = impl_->padding;
  padding.fixed_length = length;
  padding.multiple_of = 1;
  padding.apply(encodings);
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    std::string token = impl_->token_of(id);
    if (token.empty() || (skip_special_tokens && impl_->added->is_special(id))) continue;
    tokens.push_back(std::move(token));
  }
  std::string text;
  for (const std::string& part : impl_->decoder(std::move(tokens))) text += part;
  return text;
}

std::int64_t Tokenizer::vocabulary_size() const {
  std::int64_t size = static_cast<std::int64_t>(impl_->model->vocabulary().size());
  size += impl_->added->count_outside(impl_->model->vocabulary());
  return size;
}

std::int64_t Tokenizer::id_of(std::string_view token) const {
  return impl_->id_of(token);
}

std::string Tokenizer::token_of(std::int64_t id) const {
  return impl_->token_of(id);
}

}  // namespace tessera
