// Byte-pair encoding: neighbouring symbols of a word are joined in the order of the learned merges (Sennrich et al.,
// arXiv:1508.07909).
#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "text/json_part.h"
#include "text/token_model.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr std::size_t kLongestAffix = 256;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

struct Merge {
  std::int64_t rank, id;
};

struct PairHash {
  std::size_t operator()(const std::pair<std::int64_t, std::int64_t>& pair) const {
    return std::hash<std::uint64_t>()((static_cast<std::uint64_t>(pair.first) << 32) ^
                                      static_cast<std::uint64_t>(pair.second));
  }
};

// A symbol of a word, in a list that merges shorten.
struct Symbol {
  std::int64_t id;
  std::size_t before, after;
  bool alive = true;
};

// The merge that comes first: by rank, then from left to right.
struct Candidate {
  std::int64_t rank;
  std::size_t at;
  std::int64_t left, right, id;
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return std::tie(a.rank, a.at) > std::tie(b.rank, b.at);
  }
};

class BytePairs : public TokenModel {
 public:
  explicit BytePairs(const nlohmann::json& part)
      : prefix_(text_of(part, "continuing_subword_prefix", "")),
        suffix_(text_of(part, "end_of_word_suffix", "")),
        ignores_merges_(flag_of(part, "ignore_merges", false)),
        joins_unknown_(flag_of(part, "fuse_unk", false)) {
    require(prefix_.size() <= kLongestAffix && suffix_.size() <= kLongestAffix, ErrorKind::unsupported,
            "the tokenizer's prefix or suffix of words is longer than {} bytes", kLongestAffix);
    for (const auto& [token, id] : part.at("vocab").items()) vocabulary_.add(token, whole_number(id));
    for (const nlohmann::json& merge : part.at("merges")) add_merge(merge);
    unknown_ = vocabulary_.id_of(text_of(part, "unk_token", ""));
    if (flag_of(part, "byte_fallback", false)) bytes_ = byte_tokens(vocabulary_);
  }

  void append_tokens(const std::string& word, std::vector<std::int64_t>& out) const override {
    if (word.empty()) return;
    if (const std::int64_t whole = vocabulary_.id_of(word); ignores_merges_ && whole >= 0) {
      out.push_back(whole);
      return;
    }
    std::vector<Symbol> symbols = symbols_of(word);
    merge(symbols);
    for (const Symbol& symbol : symbols)
      if (symbol.alive) out.push_back(symbol.id);
  }

 private:
  // "a b" or ["a", "b"].
  void add_merge(const nlohmann::json& merge) {
    std::string left, right;
    if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      const std::size_t space = text.find(' ');
      require(space != std::string::npos, ErrorKind::invalid_argument, "the tokenizer's merge '{}' has no two parts",
              text);
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      require(merge.is_array() && merge.size() == 2, ErrorKind::invalid_argument,
              "merge {} of the tokenizer has no two parts", merges_.size());
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    // The prefix of what continues a word is not repeated in the middle of a token.
    const std::string tail = right.starts_with(prefix_) ? right.substr(prefix_.size()) : right;
    const std::int64_t a = vocabulary_.id_of(left), b = vocabulary_.id_of(right), both = vocabulary_.id_of(left + tail);
    require(a >= 0 && b >= 0 && both >= 0, ErrorKind::invalid_argument,
            "the tokenizer merges '{}' and '{}', which are not all in its vocabulary", left, right);
    merges_[{a, b}] = {rank_++, both};
  }

  std::vector<Symbol> symbols_of(const std::string& word) const {
    std::vector<std::int64_t> ids;
    const std::u32string characters = decode_utf8(word);
    bool unknown_before = false;
    for (std::size_t i = 0; i < characters.size(); ++i) {
      std::string character;
      append_utf8(character, characters[i]);
      const std::string symbol = (i > 0 ? prefix_ : "") + character + (i + 1 == characters.size() ? suffix_ : "");
      const std::int64_t id = vocabulary_.id_of(symbol);
      const bool unknown = id < 0 && bytes_.empty();
      if (id >= 0) {
        ids.push_back(id);
      } else if (!bytes_.empty()) {
        for (const char byte : symbol) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
      } else if (unknown_ >= 0 && !(joins_unknown_ && unknown_before)) {
        // A vocabulary without a token for unknown text drops the character.
        ids.push_back(unknown_);
      }
      unknown_before = unknown;
    }
    std::vector<Symbol> symbols;
    for (std::size_t i = 0; i < ids.size(); ++i)
      symbols.push_back({ids[i], i > 0 ? i - 1 : kNone, i + 1 < ids.size() ? i + 1 : kNone});
    return symbols;
  }

  std::optional<Candidate> candidate(const std::vector<Symbol>& symbols, std::size_t at) const {
    if (at == kNone || symbols[at].after == kNone) return std::nullopt;
    const std::int64_t left = symbols[at].id, right = symbols[symbols[at].after].id;
    const auto found = merges_.find({left, right});
    if (found == merges_.end()) return std::nullopt;
    return Candidate{found->second.rank, at, left, right, found->second.id};
  }

  void merge(std::vector<Symbol>& symbols) const {
    std::priority_queue<Candidate> queue;
    const auto add = [&](std::size_t at) {
      if (const auto found = candidate(symbols, at)) queue.push(*found);
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) add(i);
    while (!queue.empty()) {
      const Candidate next = queue.top();
      queue.pop();
      Symbol& left = symbols[next.at];
      // Skips candidates of which a symbol was merged since they were queued.
      if (!left.alive || left.id != next.left || left.after == kNone || symbols[left.after].id != next.right) continue;
      symbols[left.after].alive = false;
      left.id = next.id;
      left.after = symbols[left.after].after;
      if (left.after != kNone) symbols[left.after].before = next.at;
      add(left.before);
      add(next.at);
    }
  }

  std::string prefix_, suffix_;
  bool ignores_merges_, joins_unknown_;
  std::int64_t unknown_ = -1, rank_ = 0;
  std::vector<std::int64_t> bytes_;  // of the fallback to bytes; empty: there is none
  std::unordered_map<std::pair<std::int64_t, std::int64_t>, Merge, PairHash> merges_;
};

}  // namespace

std::unique_ptr<TokenModel> make_byte_pairs(const nlohmann::json& part) {
  return std::make_unique<BytePairs>(part);
}

}  // namespace tessera::text
