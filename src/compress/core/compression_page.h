// Sections of pages that all reports of compressed models share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/compression_costs.h"

namespace tessera::compress {

// The figures that come first on a page.
std::string costs_facts(const CompressionCosts& costs);

// A layer in a plot of errors.
struct LayerMark {
  std::string name;
  double bits = 0;               // of the file for each weight of the model before
  std::optional<double> snr_db;  // what its compression costs
  bool is_kept = false;          // it stayed as it was
  std::string remark;            // why, or nothing
};
// The signal-to-noise ratio of layers against their bits per weight; "" where no layer has one. `explanation` says
// what the ratio is taken at.
std::string error_by_bits_section(const std::vector<LayerMark>& layers, std::string_view explanation);

// A kind of bytes of the model afterwards; `css_class`: memory, arithmetic or overhead.
struct SizePart {
  std::string name;
  std::string_view css_class;
  std::int64_t bytes = 0;
};
// `whole` comes first, and the parts are bars in its scale.
std::string size_section(const SizePart& whole, const std::vector<SizePart>& parts, std::string_view explanation);

}  // namespace tessera::compress
