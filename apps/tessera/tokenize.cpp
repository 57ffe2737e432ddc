// tessera tokenize: shows the tokens that a language model reads from a text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "common.h"
#include "generate/language_text.h"
#include "io/file.h"
#include "report/values/json_text.h"
#include "tessera/tokenizer.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 30;

struct TokenizeOptions {
  std::string tokenizer, pair, file;
  std::vector<std::string> texts;
  std::vector<std::int64_t> decode;
  std::int64_t max_length = 0;
  bool plain = false, json = false, pad = false, literal = false;
};

std::vector<std::string> texts_of(const TokenizeOptions& options) {
  std::vector<std::string> texts = options.texts;
  if (options.file.empty()) return texts;
  const std::vector<std::byte> bytes = io::read_file(options.file, kMostFileBytes);
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  for (std::string line; std::getline(lines, line);) texts.push_back(line);
  return texts;
}

std::vector<TokenEncoding> encode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::vector<std::string> texts = texts_of(options);
  const TokenizerOptions how{!options.plain, options.max_length, !options.literal};
  if (options.pad) return tokenizer.encode_batch(texts, how);
  std::vector<TokenEncoding> result;
  for (const std::string& text : texts)
    result.push_back(options.pair.empty() ? tokenizer.encode(text, how)
                                          : tokenizer.encode_pair(text, options.pair, how));
  return result;
}

nlohmann::json as_json(const TokenEncoding& encoding) {
  return {{"ids", encoding.ids},
          {"tokens", encoding.tokens},
          {"type_ids", encoding.type_ids},
          {"attention_mask", encoding.attention_mask},
          {"special_tokens_mask", encoding.special_mask}};
}

void run_tokenize(const TokenizeOptions& options) {
  require(options.decode.empty() != (options.texts.empty() && options.file.empty()), ErrorKind::invalid_argument,
          "tokenize wants either texts (as arguments or by --file) or --decode with the numbers of tokens");
  const Tokenizer tokenizer = generate::tokenizer_at(options.tokenizer);
  if (!options.decode.empty()) {
    for (const std::int64_t id : options.decode)
      require(!tokenizer.token_of(id).empty(), ErrorKind::invalid_argument,
              "--decode: there is no token {}, expected numbers from 0 to {}", id, tokenizer.vocabulary_size() - 1);
    const std::string text = tokenizer.decode(options.decode, !options.plain);
    fmt::print("{}\n", options.json ? report::json_text({{"text", text}}, 2) : base::printable(text));
    return;
  }
  const std::vector<TokenEncoding> encodings = encode(options, tokenizer);
  if (options.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const TokenEncoding& encoding : encodings) list.push_back(as_json(encoding));
    fmt::print("{}\n", report::json_text({{"vocabulary", tokenizer.vocabulary_size()}, {"encodings", list}}));
    return;
  }
  for (const TokenEncoding& encoding : encodings) {
    std::vector<std::string> shown;
    for (const std::string& token : encoding.tokens) shown.push_back(base::printable(token));
    fmt::print("{} tokens: {}\n{}\n", encoding.ids.size(), fmt::join(shown, " "), fmt::join(encoding.ids, " "));
  }
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* verb =
      app.add_subcommand("tokenize", "Show the tokens that a language model reads of a text, or the text of tokens");
  verb->add_option(
          "TOKENIZER", options->tokenizer,
          "The tokenizer: a tokenizer.json of Hugging Face's tokenizers, a .gguf file, a folder with one, or the "
          ".tsr of a language model")
      ->required();
  verb->add_option("TEXT", options->texts, "Texts");
  verb->add_option("--file", options->file, "A file with one text a line");
  verb->add_option("--pair", options->pair, "A second text, for models that read pairs");
  verb->add_option("--max-length", options->max_length, "Most tokens, special ones included; 0: as the tokenizer says")
      ->capture_default_str();
  verb->add_flag("--pad", options->pad, "Pad all texts to the longest");
  verb->add_flag("--no-special", options->plain, "Without special tokens such as [CLS]; with --decode: show them");
  verb->add_flag("--literal", options->literal,
                 "Take special tokens that texts spell out, such as <|im_end|>, for text");
  verb->add_option("--decode", options->decode, "Numbers of tokens to make a text of, with commas between")
      ->delimiter(',');
  verb->add_flag("--json", options->json, "Print ids, tokens, type ids and masks as JSON");
  verb->footer(
      "WordPiece, byte-pair encoding, Unigram and WordLevel are known, with the usual normalizers, pre-tokenizers,\n"
      "post-processors and decoders; what is not known is an error by name.\n\nExamples:\n"
      "  tessera tokenize tokenizer.json 'Hello, world!'\n"
      "  tessera tokenize model.gguf --file questions.txt --json\n"
      "  tessera tokenize tokenizer.json --decode 101,7592,102");
  verb->callback([options] { run_tokenize(*options); });
}

}  // namespace tessera::apps
