#include "text/vocabulary.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera::text {

void Vocabulary::add(const std::string& token, std::int64_t id) {
  require(id >= 0 && id <= std::numeric_limits<std::int32_t>::max(), ErrorKind::invalid_argument,
          "the tokenizer gives the token '{}' the number {}, expected 0 to 2147483647", token, id);
  ids_[token] = id;
  tokens_[id] = token;
  longest_ = std::max(longest_, token.size());
}

std::int64_t Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

std::string_view Vocabulary::token_of(std::int64_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace tessera::text
