#include "train/data/text/text_dataset.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/error.h"

namespace tessera::train {
namespace {

// The length in bytes of the code point that begins here; 1 for a byte that begins none.
std::size_t code_point_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t wanted = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 1;
  if (wanted > text.size()) return 1;
  for (std::size_t i = 1; i < wanted; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 1;
  }
  return wanted;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Letters beyond ASCII are code points of several bytes, all of which count as letters.
bool is_word_part(std::string_view code_point) {
  const char c = code_point[0];
  return code_point.size() > 1 || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

class TextDataset final : public Dataset {
 public:
  TextDataset(std::vector<std::int64_t> tokens, std::int64_t length, TextTask task, std::string source)
      : tokens_(std::move(tokens)), length_(length), task_(task), source_(std::move(source)) {
    require(length > 0, ErrorKind::invalid_argument, "a window of text must have at least one token, not {}", length);
    const std::int64_t extra = task == TextTask::next_token ? 1 : 0;
    size_ = (static_cast<std::int64_t>(tokens_.size()) - extra) / length;
    require(size_ > 0, ErrorKind::invalid_argument, "'{}' has {} tokens, fewer than a window of {}", source_,
            tokens_.size(), length + extra);
    fields_ = {{"x", DType::i64, {length}}};
    if (task == TextTask::next_token) fields_.push_back({"y", DType::i64, {length}});
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return size_; }
  std::string describe(std::int64_t index) const override {
    return fmt::format("{} from token {}", source_, index * length_);
  }
  std::int64_t memory_bytes() const override {
    return static_cast<std::int64_t>(tokens_.size() * sizeof(std::int64_t));
  }
  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    const std::int64_t* from = tokens_.data() + index * length_;
    const auto bytes = static_cast<std::size_t>(length_) * sizeof(std::int64_t);
    std::memcpy(to[0], from, bytes);
    if (task_ == TextTask::next_token) std::memcpy(to[1], from + 1, bytes);
  }

 private:
  std::vector<std::int64_t> tokens_;
  std::int64_t length_, size_ = 0;
  TextTask task_;
  std::string source_;
  std::vector<Field> fields_;
};

}  // namespace

std::vector<std::string_view> tokenise(std::string_view text, TokenLevel level) {
  std::vector<std::string_view> tokens;
  bool in_word = false;
  while (!text.empty()) {
    const std::string_view point = text.substr(0, code_point_bytes(text));
    const bool joins = level == TokenLevel::word && is_word_part(point);
    if (joins && in_word) tokens.back() = {tokens.back().data(), tokens.back().size() + point.size()};
    else if (level == TokenLevel::character || !is_space(point[0])) tokens.push_back(point);
    in_word = joins;
    text.remove_prefix(point.size());
  }
  return tokens;
}

TrainedVocabulary TrainedVocabulary::learn(std::string_view text, TokenLevel level, std::int64_t most) {
  require(most > 3, ErrorKind::invalid_argument, "a vocabulary must have more than 3 tokens, not {}", most);
  std::unordered_map<std::string_view, std::int64_t> counts;
  for (const std::string_view token : tokenise(text, level)) ++counts[token];
  std::vector<std::pair<std::string_view, std::int64_t>> ranked(counts.begin(), counts.end());
  std::ranges::sort(ranked, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  TrainedVocabulary result;
  result.level_ = level;
  result.tokens_ = {"[UNK]", "[MASK]", "[PAD]"};
  for (const auto& [token, count] : ranked) {
    if (result.size() >= most) break;
    result.numbers_.emplace(token, result.size());
    result.tokens_.emplace_back(token);
  }
  return result;
}

std::vector<std::int64_t> TrainedVocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> numbers;
  for (const std::string_view token : tokenise(text, level_)) {
    const auto found = numbers_.find(token);
    numbers.push_back(found != numbers_.end() ? found->second : kUnknown);
  }
  return numbers;
}

std::unique_ptr<Dataset> make_text_dataset(std::vector<std::int64_t> tokens, std::int64_t length, TextTask task,
                                           std::string source) {
  return std::make_unique<TextDataset>(std::move(tokens), length, task, std::move(source));
}

}  // namespace tessera::train
