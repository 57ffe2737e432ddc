// Converts tokens to a text.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

// Maps the texts of tokens to those whose concatenation is the text.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

// Reads the part "decoder" of a tokenizer.json; null puts a space between tokens. Throws Error: unsupported for an
// unknown type, invalid_argument for an invalid part.
Decoder make_decoder(const nlohmann::json& part, int depth = 0);

// A decoder that knows what each token adds to a text. The bytes of all tokens joined, with U+FFFD for what is no UTF-8
// in them, are the text.
struct PieceDecoder {
  // The bytes of a token of the vocabulary. `is_first`: it begins the text. Null: they depend on the token's
  // neighbours.
  std::function<std::string(std::int64_t id, std::string_view token, bool is_first)> bytes;
  bool drops_first_space = false;  // the text begins without the space that the bytes may begin with
  // Tokens such as <0x0A> that follow each other become characters if all of them together are UTF-8, else one U+FFFD
  // each.
  bool groups_bytes = false;
};

// From the same part. A kind of decoder that does not work token by token gives one without `bytes`.
PieceDecoder make_piece_decoder(const nlohmann::json& part);
// "<0x0A>": the byte 10. None for another token.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace tessera::text
