// WordPiece: the longest token that begins a word, then the longest that continues it (Wu et al., arXiv:1609.08144; as
// BERT does it). WordLevel: whole words.
#include <algorithm>

#include "tessera/tokenizer.h"
#include "text/json_part.h"
#include "text/token_model.h"

namespace tessera::text {
namespace {

constexpr std::size_t kLongestPrefix = 256, kMostCharactersOfWord = 10'000;
constexpr std::size_t kCharactersOfWord = 100;  // BERT's: a longer word is unknown

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

void read_vocabulary(const nlohmann::json& part, Vocabulary& vocabulary) {
  for (const auto& [token, id] : part.at("vocab").items()) vocabulary.add(token, whole_number(id));
}

class WordPieces : public TokenModel {
 public:
  explicit WordPieces(const nlohmann::json& part)
      : prefix_(text_of(part, "continuing_subword_prefix", "##")),
        most_characters_(static_cast<std::size_t>(whole_number(part, "max_input_chars_per_word", kCharactersOfWord))) {
    require(prefix_.size() <= kLongestPrefix && most_characters_ <= kMostCharactersOfWord, ErrorKind::unsupported,
            "the tokenizer has words of {} characters or a prefix of {} bytes; at most {} and {} are supported",
            most_characters_, prefix_.size(), kMostCharactersOfWord, kLongestPrefix);
    read_vocabulary(part, vocabulary_);
    unknown_ = vocabulary_.id_of(text_of(part, "unk_token", "[UNK]"));
  }

  explicit WordPieces(const TokenizerParts& parts)
      : prefix_("##"), most_characters_(kCharactersOfWord), unknown_(parts.unknown) {
    constexpr std::string_view kWordBegin = "\u2581";
    for (std::size_t i = 0; i < parts.tokens.size(); ++i) {
      std::string token = parts.tokens[i];
      if (token.starts_with(kWordBegin)) token.erase(0, kWordBegin.size());
      else if (kind_of(parts, i) == TokenKind::normal) token.insert(0, prefix_);
      vocabulary_.add(token, static_cast<std::int64_t>(i));
    }
  }

  void append_tokens(const std::string& word, std::vector<std::int64_t>& out) const override {
    const std::size_t before = out.size();
    if (static_cast<std::size_t>(std::ranges::count_if(word, begins_character)) <= most_characters_ &&
        append_pieces(word, out))
      return;
    if (unknown_ < 0) fail_unknown_text(word);
    out.resize(before);
    out.push_back(unknown_);
  }

 private:
  // False where some part of the word is in no token.
  bool append_pieces(const std::string& word, std::vector<std::int64_t>& out) const {
    std::string piece;
    for (std::size_t first = 0; first < word.size();) {
      piece = first > 0 ? prefix_ : std::string();
      const std::size_t front = piece.size();
      piece.append(word, first);
      std::int64_t id = vocabulary_.id_of(piece);
      while (id < 0 && piece.size() > front) {
        do piece.pop_back();
        while (piece.size() > front && !begins_character(word[first + piece.size() - front]));
        if (piece.size() > front) id = vocabulary_.id_of(piece);
      }
      if (id < 0) return false;
      out.push_back(id);
      first += piece.size() - front;
    }
    return true;
  }

  std::string prefix_;
  std::size_t most_characters_;
  std::int64_t unknown_;
};

class WordLevel : public TokenModel {
 public:
  explicit WordLevel(const nlohmann::json& part) {
    read_vocabulary(part, vocabulary_);
    unknown_ = vocabulary_.id_of(text_of(part, "unk_token", "<unk>"));
  }

  void append_tokens(const std::string& word, std::vector<std::int64_t>& out) const override {
    const std::int64_t id = vocabulary_.id_of(word);
    if (id < 0 && unknown_ < 0) fail_unknown_text(word);
    out.push_back(id < 0 ? unknown_ : id);
  }

 private:
  std::int64_t unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_word_pieces(const nlohmann::json& part) {
  return std::make_unique<WordPieces>(part);
}

std::unique_ptr<TokenModel> make_word_pieces(const TokenizerParts& parts) {
  return std::make_unique<WordPieces>(parts);
}

std::unique_ptr<TokenModel> make_word_level(const nlohmann::json& part) {
  return std::make_unique<WordLevel>(part);
}

}  // namespace tessera::text
