// What a recipe of Deep Compression did, as text, JSON and a page.
#pragma once

#include <string>
#include <vector>

#include "tessera/deep_compression.h"

namespace tessera::compress {

// `folds` has one entry at least.
std::string deep_compression_text(const std::vector<CompressedFold>& folds);
std::string deep_compression_json(const std::vector<CompressedFold>& folds);
// `recipe`: the name of its file.
std::string deep_compression_html(const std::vector<CompressedFold>& folds, const std::string& recipe);

}  // namespace tessera::compress
