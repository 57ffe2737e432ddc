// The normalisation of a text before a tokenizer splits it into words: normal forms, case, accents, replacements.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera::text {

using Normalizer = std::function<std::u32string(std::u32string)>;

// Reads the part "normalizer" of a tokenizer.json; null changes nothing. Throws Error: unsupported for an unknown type,
// invalid_argument for an invalid part.
Normalizer make_normalizer(const nlohmann::json& part, int depth = 0);

}  // namespace tessera::text
