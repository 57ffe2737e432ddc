// Byte-pair encoding: neighbouring symbols of a word are joined in the order of the learned merges (Sennrich et al.,
// arXiv:1508.07909).
#include <array>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "tessera/tokenizer.h"
#include "text/json_part.h"
#include "text/token_model.h"

namespace tessera::text {
namespace {

constexpr std::size_t kLongestAffix = 256;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

struct Merge {
  std::int32_t left, right, id;
  std::int32_t rank;
};

// The merges of a vocabulary by the pair that they join.
class Merges {
  // Said here, since its type must be known before it is used.
  auto is_pair(std::int64_t left, std::int64_t right) const {
    return
        [this, left, right](std::uint32_t each) { return merges_[each].left == left && merges_[each].right == right; };
  }

 public:
  void reserve(std::size_t count) { merges_.reserve(count); }
  std::size_t size() const { return merges_.size(); }
  void add(std::int64_t left, std::int64_t right, std::int64_t id) {
    const std::size_t rank = merges_.size();
    require(rank < std::numeric_limits<std::int32_t>::max(), ErrorKind::unsupported,
            "the tokenizer has more than {} merges", rank);
    merges_.push_back({static_cast<std::int32_t>(left), static_cast<std::int32_t>(right), static_cast<std::int32_t>(id),
                       static_cast<std::int32_t>(rank)});
    by_pair_.put(hash_of(left, right), static_cast<std::uint32_t>(rank), is_pair(left, right),
                 [&](std::uint32_t each) { return hash_of(merges_[each].left, merges_[each].right); });
  }
  // Null: the pair is not joined.
  const Merge* find(std::int64_t left, std::int64_t right) const {
    const std::uint32_t found = by_pair_.find(hash_of(left, right), is_pair(left, right));
    return found == SlotTable::kNone ? nullptr : &merges_[found];
  }

 private:
  static std::size_t hash_of(std::int64_t left, std::int64_t right) {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(left) << 32) ^ static_cast<std::uint64_t>(right));
  }

  std::vector<Merge> merges_;
  SlotTable by_pair_;
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

// "a b" as its parts. The space of a token, which some vocabularies write as it is, cannot be the first character.
std::pair<std::string_view, std::string_view> parts_of(std::string_view merge, ErrorKind kind) {
  const std::size_t space = merge.find(' ', 1);
  require(space != std::string_view::npos, kind, "the tokenizer's merge '{}' has no two parts", merge);
  return {merge.substr(0, space), merge.substr(space + 1)};
}

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
    find_single_bytes();
  }

  BytePairs(const TokenizerParts& parts, bool takes_whole_words, bool falls_back)
      : ignores_merges_(takes_whole_words), joins_unknown_(falls_back), unknown_(falls_back ? parts.unknown : -1) {
    is_control_.resize(parts.tokens.size());
    for (std::size_t i = 0; i < parts.tokens.size(); ++i) {
      vocabulary_.add(parts.tokens[i], static_cast<std::int64_t>(i));
      is_control_[i] = kind_of(parts, i) == TokenKind::control || kind_of(parts, i) == TokenKind::unknown;
    }
    merges_.reserve(parts.merges.size());
    for (const std::string& merge : parts.merges) {
      const auto [left, right] = parts_of(merge, ErrorKind::invalid_model);
      add_merge(left, right, ErrorKind::invalid_model);
    }
    if (falls_back) bytes_ = byte_tokens(vocabulary_);
    find_single_bytes();
  }

  void append_tokens(const std::string& word, std::vector<std::int64_t>& out) const override {
    if (word.empty()) return;
    if (ignores_merges_) {
      const std::int64_t whole = text_token(word);
      if (whole >= 0) {
        out.push_back(whole);
        return;
      }
    }
    std::vector<Symbol> symbols = symbols_of(word);
    merge(symbols);
    for (const Symbol& symbol : symbols)
      if (symbol.alive) out.push_back(symbol.id);
  }

 private:
  // "a b" or ["a", "b"].
  void add_merge(const nlohmann::json& merge) {
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const auto [left, right] = parts_of(text, ErrorKind::invalid_argument);
      add_merge(left, right, ErrorKind::invalid_argument);
      return;
    }
    require(merge.is_array() && merge.size() == 2, ErrorKind::invalid_argument,
            "merge {} of the tokenizer has no two parts", merges_.size());
    add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(),
              ErrorKind::invalid_argument);
  }

  void add_merge(std::string_view left, std::string_view right, ErrorKind kind) {
    // The prefix of what continues a word is not repeated in the middle of a token.
    const std::string_view tail = right.starts_with(prefix_) ? right.substr(prefix_.size()) : right;
    const std::int64_t a = vocabulary_.id_of(left), b = vocabulary_.id_of(right);
    const std::int64_t both = vocabulary_.id_of(std::string(left).append(tail));
    require(a >= 0 && b >= 0 && both >= 0, kind,
            "the tokenizer merges '{}' and '{}', which are not all in its vocabulary", left, right);
    merges_.add(a, b, both);
  }

  // The token with this text, unless it is a control token, which no text becomes.
  std::int64_t text_token(std::string_view text) const {
    const std::int64_t id = vocabulary_.id_of(text);
    return id >= 0 && !is_control_.empty() && is_control_[static_cast<std::size_t>(id)] ? -1 : id;
  }

  void find_single_bytes() {
    for (std::size_t byte = 0; byte < ascii_.size(); ++byte)
      ascii_[byte] = text_token(std::string(1, static_cast<char>(byte)));
  }

  std::vector<Symbol> symbols_of(const std::string& word) const {
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    const auto add = [&](std::int64_t id) {
      symbols.push_back({id, symbols.empty() ? kNone : symbols.size() - 1, symbols.size() + 1});
    };
    const bool is_plain = prefix_.empty() && suffix_.empty();
    bool unknown_before = false;
    std::string framed;
    for (std::size_t first = 0; first < word.size();) {
      std::size_t last = first + 1;
      while (last < word.size() && (static_cast<unsigned char>(word[last]) & 0xC0) == 0x80) ++last;
      std::string_view symbol = std::string_view(word).substr(first, last - first);
      if (!is_plain) {
        framed = first > 0 ? prefix_ : std::string();
        framed.append(symbol);
        if (last == word.size()) framed += suffix_;
        symbol = framed;
      }
      const bool is_ascii = is_plain && last - first == 1 && static_cast<unsigned char>(symbol[0]) < ascii_.size();
      const std::int64_t id = is_ascii ? ascii_[static_cast<unsigned char>(symbol[0])] : text_token(symbol);
      const bool unknown = id < 0 && bytes_.empty();
      if (id >= 0) {
        add(id);
      } else if (!bytes_.empty()) {
        for (const char byte : symbol) add(bytes_[static_cast<unsigned char>(byte)]);
      } else if (unknown_ >= 0 && !(joins_unknown_ && unknown_before)) {
        // A vocabulary without a token for unknown text drops the character.
        add(unknown_);
      }
      unknown_before = unknown;
      first = last;
    }
    if (!symbols.empty()) symbols.back().after = kNone;
    return symbols;
  }

  std::optional<Candidate> candidate(const std::vector<Symbol>& symbols, std::size_t at) const {
    if (at == kNone || symbols[at].after == kNone) return std::nullopt;
    const std::int64_t left = symbols[at].id, right = symbols[symbols[at].after].id;
    const Merge* const found = merges_.find(left, right);
    if (found == nullptr) return std::nullopt;
    return Candidate{found->rank, at, left, right, found->id};
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
  std::int64_t unknown_ = -1;
  std::vector<bool> is_control_;           // by token; empty: none is
  std::array<std::int64_t, 128> ascii_{};  // the tokens of single characters
  std::vector<std::int64_t> bytes_;        // of the fallback to bytes; empty: there is none
  Merges merges_;
};

}  // namespace

std::unique_ptr<TokenModel> make_byte_pairs(const nlohmann::json& part) {
  return std::make_unique<BytePairs>(part);
}

std::unique_ptr<TokenModel> make_byte_pairs(const TokenizerParts& parts, bool takes_whole_words, bool falls_back) {
  return std::make_unique<BytePairs>(parts, takes_whole_words, falls_back);
}

}  // namespace tessera::text
