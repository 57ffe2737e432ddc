// Converts tokens to a text.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::text {

// Maps the texts of tokens to those whose concatenation is the text.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

// Reads the part "decoder" of a tokenizer.json; null puts a space between tokens. Throws Error: unsupported for an
// unknown type, invalid_argument for an invalid part.
Decoder make_decoder(const nlohmann::json& part, int depth = 0);

}  // namespace tessera::text
