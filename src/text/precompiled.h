// The character map of a SentencePiece model (Kudo, Richardson, arXiv:1808.06226, section 3.5): a table of texts and
// their replacements, compiled to a trie.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/normalizer.h"

namespace tessera::text {

// Applies a normalizer of the type Precompiled: a grapheme is replaced where the map has it or a prefix of it, else
// each of its characters is. Throws Error(invalid_argument) where the map is damaged.
Normalizer make_precompiled(const nlohmann::json& part);
// From the bytes of the map.
Normalizer make_precompiled(const std::string& bytes);

}  // namespace tessera::text
