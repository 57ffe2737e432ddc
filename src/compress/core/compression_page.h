// Sections of HTML pages that all reports of compressed models share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/compression_costs.h"

namespace tessera::compress {

// The figures at the top of a page.
std::string costs_facts(const CompressionCosts& costs);

// A layer in the plot of errors.
struct LayerMark {
  std::string name;
  double bits = 0;               // in the file, per weight of the original model
  std::optional<double> snr_db;  // of the model with this layer compressed
  bool is_kept = false;          // whether it was left as it was
  std::string remark;            // why, or empty
};
// The plot of the layers' signal-to-noise ratios against their bits per weight; "" if no layer has a ratio.
// `explanation` says how the ratio was measured.
std::string error_by_bits_section(const std::vector<LayerMark>& layers, std::string_view explanation);

// A part of the compressed model's bytes. `css_class` is memory, arithmetic or overhead.
struct SizePart {
  std::string name;
  std::string_view css_class;
  std::int64_t bytes = 0;
};
// `whole` comes first; the parts are drawn as bars in its scale.
std::string size_section(const SizePart& whole, const std::vector<SizePart>& parts, std::string_view explanation);

}  // namespace tessera::compress
