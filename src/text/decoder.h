// From tokens back to a text.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::text {

// Maps the texts of tokens to those whose concatenation is the text.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

// By the part "decoder" of a tokenizer.json; null puts a space between tokens. Throws Error: unsupported for a type
// that is not known, invalid_argument for nonsense.
Decoder make_decoder(const nlohmann::json& part, int depth = 0);

}  // namespace tessera::text
