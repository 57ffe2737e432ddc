#include "text/length.h"

#include <algorithm>

#include "text/json_part.h"

namespace tessera::text {
namespace {

constexpr std::int64_t kMostPadding = 1 << 20;  // that a file may ask to pad to

bool is_left(const nlohmann::json& part) {
  const std::string direction = text_of(part, "direction", "Right");
  require(direction == "Left" || direction == "Right", ErrorKind::invalid_argument,
          "a direction of the tokenizer is '{}', expected Left or Right", direction);
  return direction == "Left";
}

void shorten(std::vector<std::int64_t>& tokens, std::int64_t length, bool from_left) {
  const std::ptrdiff_t excess = static_cast<std::ptrdiff_t>(tokens.size()) - static_cast<std::ptrdiff_t>(length);
  if (excess <= 0) return;
  if (from_left) tokens.erase(tokens.begin(), tokens.begin() + excess);
  else tokens.resize(static_cast<std::size_t>(length));
}

template <typename T>
void extend(std::vector<T>& list, std::size_t count, const T& value, bool to_left) {
  list.insert(to_left ? list.begin() : list.end(), count, value);
}

}  // namespace

void Truncation::apply(std::vector<std::vector<std::int64_t>>& texts, std::int64_t added) const {
  if (max_length <= 0) return;
  const std::int64_t most = std::max<std::int64_t>(0, max_length - added);
  std::int64_t total = 0;
  for (const auto& tokens : texts) total += static_cast<std::int64_t>(tokens.size());
  if (total <= most) return;
  if (strategy != Strategy::longest_first) {
    const std::size_t which = strategy == Strategy::only_first ? 0 : 1;
    require(which < texts.size() && total - most <= static_cast<std::int64_t>(texts[which].size()),
            ErrorKind::invalid_argument,
            "{} tokens must become {}, but the {} text, which alone the tokenizer shortens, has only {}", total, most,
            which == 0 ? "first" : "second", which < texts.size() ? texts[which].size() : 0);
    shorten(texts[which], static_cast<std::int64_t>(texts[which].size()) - (total - most), from_left);
    return;
  }
  if (texts.size() == 1) return shorten(texts[0], most, from_left);
  // The shorter text stays whole where the longer one can give enough; else both get half.
  const std::int64_t a = static_cast<std::int64_t>(texts[0].size()), b = static_cast<std::int64_t>(texts[1].size());
  std::int64_t less = std::min(a, b);
  std::int64_t more = less > most ? less : std::max(less, most - less);
  if (less + more > most) {
    less = most / 2;
    more = less + most % 2;
  }
  shorten(texts[0], a > b ? more : less, from_left);
  shorten(texts[1], a > b ? less : more, from_left);
}

void Padding::apply(std::vector<TokenEncoding>& batch) const {
  std::int64_t length = fixed_length;
  if (length == 0)
    for (const TokenEncoding& each : batch) length = std::max(length, static_cast<std::int64_t>(each.ids.size()));
  length = (length + multiple_of - 1) / multiple_of * multiple_of;
  for (TokenEncoding& each : batch) {
    const std::int64_t missing = length - static_cast<std::int64_t>(each.ids.size());
    if (missing <= 0) continue;
    const auto count = static_cast<std::size_t>(missing);
    extend(each.ids, count, id, to_left);
    extend(each.type_ids, count, type, to_left);
    extend(each.tokens, count, token, to_left);
    extend(each.attention_mask, count, std::int64_t{0}, to_left);
    extend(each.special_mask, count, std::int64_t{1}, to_left);
  }
}

Truncation read_truncation(const nlohmann::json& part) {
  Truncation result;
  if (part.is_null()) return result;
  result.max_length = whole_number(part.at("max_length"));
  result.from_left = is_left(part);
  const std::string strategy = text_of(part, "strategy", "LongestFirst");
  if (strategy == "OnlyFirst") result.strategy = Truncation::Strategy::only_first;
  else if (strategy == "OnlySecond") result.strategy = Truncation::Strategy::only_second;
  else
    require(strategy == "LongestFirst", ErrorKind::invalid_argument, "the tokenizer's truncation strategy is '{}'",
            strategy);
  require(result.max_length >= 0, ErrorKind::invalid_argument, "the tokenizer's max_length is {}", result.max_length);
  return result;
}

Padding read_padding(const nlohmann::json& part) {
  Padding result;
  if (part.is_null()) return result;
  const nlohmann::json strategy = part.value("strategy", nlohmann::json("BatchLongest"));
  if (strategy.is_object()) result.fixed_length = whole_number(strategy.at("Fixed"));
  else
    require(strategy == "BatchLongest", ErrorKind::invalid_argument, "the tokenizer's padding strategy is not known");
  if (has(part, "pad_to_multiple_of"))
    result.multiple_of = std::max<std::int64_t>(1, whole_number(part.at("pad_to_multiple_of")));
  result.to_left = is_left(part);
  result.id = whole_number(part, "pad_id", 0);
  result.type = whole_number(part, "pad_type_id", 0);
  result.token = text_of(part, "pad_token", "[PAD]");
  require(result.fixed_length >= 0 && result.fixed_length <= kMostPadding && result.multiple_of <= kMostPadding,
          ErrorKind::invalid_argument, "the tokenizer pads to {} tokens or a multiple of {}, expected 0 to {}",
          result.fixed_length, result.multiple_of, kMostPadding);
  return result;
}

}  // namespace tessera::text
