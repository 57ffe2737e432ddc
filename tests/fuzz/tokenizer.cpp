// A tokenizer file, a zero byte, and a text: what it makes of the text, and of its tokens again.
#include "tessera/tokenizer.h"

#include <algorithm>

#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {

void tokenizer(std::span<const std::byte> input) {
  const std::string_view all(reinterpret_cast<const char*>(input.data()), input.size());
  const std::size_t end = std::min(all.find('\0'), all.size());
  const std::string_view text = end < all.size() ? all.substr(end + 1) : "Hello, world! caf\u00e9 42";
  try {
    const Tokenizer made = Tokenizer::from_json(all.substr(0, end));
    const TokenEncoding encoding = made.encode_pair(text, "and another");
    const std::size_t length = encoding.ids.size();
    if (encoding.tokens.size() != length || encoding.type_ids.size() != length ||
        encoding.attention_mask.size() != length || encoding.special_mask.size() != length)
      finding("the lists of an encoding differ in length");
    made.decode(encoding.ids, false);
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
