// Reports on a quantisation, as text, JSON and a page.
#pragma once

#include <string>

#include "tessera/quantise.h"

namespace tessera::compress {

// File names that stand for the model before and after quantisation.
struct QuantisationFiles {
  std::string before, after;
};

std::string quantisation_text(const QuantiseReport& report, const QuantisationFiles& files, std::size_t most_layers);
std::string quantisation_json(const QuantiseReport& report, const QuantisationFiles& files);
std::string quantisation_html(const QuantiseReport& report, const QuantisationFiles& files);

}  // namespace tessera::compress
