// SentencePiece's byte-pair encoding: of all neighbours whose joint text is a token, those with the highest score are
// joined first, from left to right among equals (Kudo, Richardson, arXiv:1808.06226). Characters without a token become
// their bytes.
#include <algorithm>
#include <limits>
#include <queue>

#include "base/error.h"
#include "tessera/tokenizer.h"
#include "text/token_model.h"

namespace tessera::text {
namespace {

constexpr std::size_t kNoPiece = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMostPieceBytes = 4096;  // in bytes: how deep a token that must be divided again is nested

// A piece of the text in a list that joining shortens.
struct Piece {
  std::size_t first, bytes;  // 0 bytes: it was joined to the one before it
  std::size_t before, after;
};

// Two neighbours whose joint text is a token.
struct Pair {
  float score;
  std::size_t left, bytes;  // the left piece and the bytes of both
  friend bool operator<(const Pair& a, const Pair& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  }
};

class ScoredPairs : public TokenModel {
 public:
  explicit ScoredPairs(const TokenizerParts& parts) : scores_(parts.scores), unknown_(parts.unknown) {
    is_unused_.resize(parts.tokens.size());
    for (std::size_t i = 0; i < parts.tokens.size(); ++i) {
      const auto id = static_cast<std::int64_t>(i);
      vocabulary_.add(parts.tokens[i], id);
      const TokenKind kind = kind_of(parts, i);
      is_unused_[i] = kind == TokenKind::unused;
      if (kind == TokenKind::normal || kind == TokenKind::user_defined || is_unused_[i])
        in_text_.add(parts.tokens[i], id);
      require(parts.scores[i] == parts.scores[i], ErrorKind::invalid_model, "the score of the token '{}' is no number",
              parts.tokens[i]);
    }
    require(vocabulary_.longest_bytes() <= kMostPieceBytes, ErrorKind::unsupported,
            "the tokenizer has a token of {} bytes; at most {} are supported", vocabulary_.longest_bytes(),
            kMostPieceBytes);
    bytes_ = byte_tokens(vocabulary_);
  }

  void append_tokens(const std::string& text, std::vector<std::int64_t>& out) const override {
    if (text.empty()) return;
    std::vector<Piece> pieces = characters_of(text);
    Halves halves;
    join(text, pieces, halves);
    for (std::size_t at = 0; at != kNoPiece; at = pieces[at].after)
      append(std::string_view(text).substr(pieces[at].first, pieces[at].bytes), halves, out);
  }

 private:
  // Where an unused token was joined: the bytes of its left half.
  using Halves = std::unordered_map<std::string_view, std::size_t>;

  static std::vector<Piece> characters_of(const std::string& text) {
    std::vector<Piece> pieces;
    pieces.reserve(text.size());
    for (std::size_t first = 0; first < text.size();) {
      std::size_t last = first + 1;
      while (last < text.size() && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) ++last;
      const std::size_t at = pieces.size();
      pieces.push_back({first, last - first, at > 0 ? at - 1 : kNoPiece, last < text.size() ? at + 1 : kNoPiece});
      first = last;
    }
    return pieces;
  }

  void join(std::string_view text, std::vector<Piece>& pieces, Halves& halves) const {
    std::priority_queue<Pair> queue;
    const auto add = [&](std::size_t left) {
      if (left == kNoPiece || pieces[left].after == kNoPiece) return;
      const std::size_t bytes = pieces[left].bytes + pieces[pieces[left].after].bytes;
      if (bytes > in_text_.longest_bytes()) return;
      const std::int64_t id = in_text_.id_of(text.substr(pieces[left].first, bytes));
      if (id >= 0) queue.push({scores_[static_cast<std::size_t>(id)], left, bytes});
    };
    for (std::size_t i = 0; i < pieces.size(); ++i) add(i);
    while (!queue.empty()) {
      const Pair next = queue.top();
      queue.pop();
      Piece& left = pieces[next.left];
      // Skips pairs of which a piece was joined since they were queued.
      if (left.bytes == 0 || left.after == kNoPiece || left.bytes + pieces[left.after].bytes != next.bytes) continue;
      const std::string_view joint = text.substr(left.first, next.bytes);
      if (is_unused_[static_cast<std::size_t>(in_text_.id_of(joint))]) halves.emplace(joint, left.bytes);
      Piece& right = pieces[left.after];
      left.bytes = next.bytes;
      left.after = right.after;
      right.bytes = 0;
      if (left.after != kNoPiece) pieces[left.after].before = next.left;
      add(left.before);
      add(next.left);
    }
  }

  void append(std::string_view piece, const Halves& halves, std::vector<std::int64_t>& out) const {
    const std::int64_t id = in_text_.id_of(piece);
    if (id >= 0 && !is_unused_[static_cast<std::size_t>(id)]) {
      out.push_back(id);
    } else if (const auto half = halves.find(piece); half != halves.end()) {
      append(piece.substr(0, half->second), halves, out);
      append(piece.substr(half->second), halves, out);
    } else if (!bytes_.empty()) {
      for (const char byte : piece) out.push_back(bytes_[static_cast<unsigned char>(byte)]);
    } else {
      if (unknown_ < 0) fail_unknown_text(std::string(piece));
      out.push_back(unknown_);
    }
  }

  Vocabulary in_text_;  // the tokens that a text can become
  std::vector<float> scores_;
  std::vector<bool> is_unused_;
  std::vector<std::int64_t> bytes_;  // empty: there is no fallback to bytes
  std::int64_t unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_scored_pairs(const TokenizerParts& parts) {
  return std::make_unique<ScoredPairs>(parts);
}

}  // namespace tessera::text
