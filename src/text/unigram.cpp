// Unigram: the tokens whose probabilities have the largest product (Kudo, arXiv:1804.10959), found by the Viterbi
// algorithm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/tokenizer.h"
#include "text/json_part.h"
#include "text/token_model.h"

namespace tessera::text {
namespace {

// An unknown character is less likely than the least likely token by this much (natural logarithm), as in
// SentencePiece.
constexpr double kUnknownPenalty = 10;
constexpr std::size_t kLongestToken = 4096;  // in bytes: each character looks for tokens of all lengths

std::size_t bytes_of_character(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

class Unigram : public TokenModel {
 public:
  explicit Unigram(const nlohmann::json& part) {
    double least = std::numeric_limits<double>::infinity();
    for (const nlohmann::json& entry : part.at("vocab")) {
      require(entry.is_array() && entry.size() == 2, ErrorKind::invalid_argument,
              "entry {} of the tokenizer's vocabulary is no pair of a token and its score", scores_.size());
      vocabulary_.add(entry[0].get<std::string>(), static_cast<std::int64_t>(scores_.size()));
      scores_.push_back(entry[1].get<double>());
      least = std::min(least, scores_.back());
    }
    check_longest();
    unknown_ = has(part, "unk_id") ? whole_number(part.at("unk_id")) : -1;
    require(unknown_ < static_cast<std::int64_t>(scores_.size()), ErrorKind::invalid_argument,
            "the tokenizer's unk_id is {}, beyond its vocabulary of {}", unknown_, scores_.size());
    unknown_score_ = least - kUnknownPenalty;
    if (flag_of(part, "byte_fallback", false)) bytes_ = byte_tokens(vocabulary_);
  }

  explicit Unigram(const TokenizerParts& parts) : unknown_(parts.unknown) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < parts.tokens.size(); ++i) {
      vocabulary_.add(parts.tokens[i], static_cast<std::int64_t>(i));
      // Only normal tokens are found in a text; a user-defined one is recognised before.
      const bool is_normal = kind_of(parts, i) == TokenKind::normal;
      scores_.push_back(is_normal ? parts.scores[i] : -std::numeric_limits<double>::infinity());
      if (is_normal) least = std::min(least, scores_.back());
    }
    check_longest();
    unknown_score_ = least - kUnknownPenalty;
  }

  void append_tokens(const std::string& word, std::vector<std::int64_t>& out) const override {
    const std::vector<Step> best = best_steps(word);
    std::vector<std::pair<std::size_t, std::size_t>> pieces;  // from the last to the first
    for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
      // Unknown characters beside each other are one token.
      const bool joins = !pieces.empty() && best[end].id == unknown_ && best[pieces.back().second].id == unknown_;
      if (joins) pieces.back().first = best[end].begin;
      else pieces.emplace_back(best[end].begin, end);
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      const std::int64_t id = best[piece->second].id;
      if (id != unknown_ || bytes_.empty()) out.push_back(id);
      else
        for (std::size_t i = piece->first; i < piece->second; ++i)
          out.push_back(bytes_[static_cast<unsigned char>(word[i])]);
    }
  }

 private:
  void check_longest() const {
    require(vocabulary_.longest_bytes() <= kLongestToken, ErrorKind::unsupported,
            "the tokenizer has a token of {} bytes; at most {} are supported", vocabulary_.longest_bytes(),
            kLongestToken);
  }

  // The best way to an end: its last token and where that begins.
  struct Step {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t begin = 0;
    std::int64_t id = -1;
  };

  std::vector<Step> best_steps(const std::string& word) const {
    std::vector<Step> best(word.size() + 1);
    best[0].score = 0;
    const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int64_t id) {
      if (best[begin].score + score > best[end].score) best[end] = {best[begin].score + score, begin, id};
    };
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t character =
          std::min(bytes_of_character(static_cast<unsigned char>(word[begin])), word.size() - begin);
      bool has_single = false;
      const std::size_t most = std::min(vocabulary_.longest_bytes(), word.size() - begin);
      for (std::size_t length = 1; length <= most; ++length) {
        const std::int64_t id = vocabulary_.id_of(std::string_view(word).substr(begin, length));
        if (id < 0 || id == unknown_ || std::isinf(scores_[static_cast<std::size_t>(id)])) continue;
        offer(begin, begin + length, scores_[static_cast<std::size_t>(id)], id);
        has_single |= length == character;
      }
      if (!has_single) {
        if (unknown_ < 0) fail_unknown_text(word);
        offer(begin, begin + character, unknown_score_, unknown_);
      }
      begin += character;
    }
    return best;
  }

  std::vector<double> scores_;
  std::int64_t unknown_ = -1;
  double unknown_score_ = 0;
  std::vector<std::int64_t> bytes_;  // of the fallback to bytes; empty: there is none
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const nlohmann::json& part) {
  return std::make_unique<Unigram>(part);
}

std::unique_ptr<TokenModel> make_unigram(const TokenizerParts& parts) {
  return std::make_unique<Unigram>(parts);
}

}  // namespace tessera::text
