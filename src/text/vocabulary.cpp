#include "text/vocabulary.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"

namespace tessera::text {

namespace {

std::size_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

}  // namespace

void Vocabulary::add(std::string_view token, std::int64_t id) {
  require(id >= 0 && id <= std::numeric_limits<std::int32_t>::max(), ErrorKind::invalid_argument,
          "the tokenizer gives the token '{}' the number {}, expected 0 to 2147483647", token, id);
  require(tokens_.size() < SlotTable::kNone && token.size() <= std::numeric_limits<std::uint32_t>::max(),
          ErrorKind::unsupported, "the tokenizer has more than 4294967294 tokens, or one of {} bytes", token.size());
  const auto place = static_cast<std::uint32_t>(tokens_.size());
  tokens_.push_back({texts_.size(), static_cast<std::uint32_t>(token.size()), static_cast<std::int32_t>(id)});
  texts_.append(token);
  by_text_.put(
      hash_of(token), place, [&](std::uint32_t each) { return text_of(each) == token; },
      [&](std::uint32_t each) { return hash_of(text_of(each)); });
  by_id_.put(
      static_cast<std::size_t>(id), place, [&](std::uint32_t each) { return tokens_[each].id == id; },
      [&](std::uint32_t each) { return static_cast<std::size_t>(tokens_[each].id); });
  longest_ = std::max(longest_, token.size());
}

std::int64_t Vocabulary::id_of(std::string_view token) const {
  const std::uint32_t found = by_text_.find(hash_of(token), [&](std::uint32_t each) { return text_of(each) == token; });
  return found == SlotTable::kNone ? -1 : tokens_[found].id;
}

std::string_view Vocabulary::token_of(std::int64_t id) const {
  const std::uint32_t found =
      by_id_.find(static_cast<std::size_t>(id), [&](std::uint32_t each) { return tokens_[each].id == id; });
  return found == SlotTable::kNone ? std::string_view() : text_of(found);
}

}  // namespace tessera::text
