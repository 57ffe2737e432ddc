// The watermarks of tessera protect.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tessera/watermark.h"

namespace tessera::apps {

struct WatermarkVerb {
  std::string identity, key;        // a mark to make
  std::vector<std::string> wanted;  // marks to find
};

void add_watermark_options(CLI::App& verb, WatermarkVerb& options);
// The model with the mark, of which a line on stderr tells unless `quiet`.
Model add_watermark(const WatermarkVerb& options, const Model& model, bool quiet);
// Prints which of the marks the model has. Exit code 1 if it has none.
void find_watermarks(const WatermarkVerb& options, const Model& model, bool json);

}  // namespace tessera::apps
