#include "text/token_model.h"

#include <fmt/format.h>

#include "tessera/tokenizer.h"
#include "text/json_part.h"

namespace tessera::text {

void fail_unknown_text(const std::string& word) {
  fail(ErrorKind::invalid_argument, "the tokenizer has no token for '{}' and none for unknown text", word);
}

std::vector<std::int64_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<std::int64_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    ids.push_back(vocabulary.id_of(fmt::format("<0x{:02X}>", byte)));
    if (ids.back() < 0) return {};
  }
  return ids;
}

TokenKind kind_of(const TokenizerParts& parts, std::size_t id) {
  return parts.types.empty() ? TokenKind::normal : static_cast<TokenKind>(parts.types[id]);
}

std::unique_ptr<TokenModel> make_token_model(const nlohmann::json& part) {
  require(part.is_object(), ErrorKind::invalid_argument, "the tokenizer has no model");
  // Old files do not name the type, but each has keys of its own.
  std::string type = text_of(part, "type", "");
  if (type.empty()) type = has(part, "merges") ? "BPE" : has(part, "unk_id") ? "Unigram" : "WordPiece";
  if (type == "WordPiece") return make_word_pieces(part);
  if (type == "BPE") return make_byte_pairs(part);
  if (type == "Unigram") return make_unigram(part);
  if (type == "WordLevel") return make_word_level(part);
  fail_unknown_part(type, "model");
}

}  // namespace tessera::text
