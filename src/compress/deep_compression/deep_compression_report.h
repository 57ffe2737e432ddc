// Reports on a recipe of Deep Compression, as text, JSON and a page.
#pragma once

#include <string>
#include <vector>

#include "tessera/deep_compression.h"

namespace tessera::compress {

// `folds` must not be empty.
std::string deep_compression_text(const std::vector<CompressedFold>& folds);
std::string deep_compression_json(const std::vector<CompressedFold>& folds);
// `recipe` is the name of its file.
std::string deep_compression_html(const std::vector<CompressedFold>& folds, const std::string& recipe);

}  // namespace tessera::compress
