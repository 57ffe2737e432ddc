// Summarises an output in one line.
#pragma once

#include <string>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::report {

struct ValueSummary {
  std::string type;  // "f32"; "sequence" …
  Shape shape;       // of a tensor
  bool is_tensor = false;
  bool has_data = true;                       // false for outputs of a device that only plans
  bool has_statistics = false;                // true only for numbers
  double minimum = 0, maximum = 0, mean = 0;  // over the finite elements
  std::int64_t not_finite = 0;                // NaN and infinities
  std::int64_t arg_maximum = 0;               // flat index of the largest element
  std::string first_values;                   // the first few elements
};

ValueSummary summarise(const Value& value);
// The largest elements of a tensor of numbers in descending order, equal ones in memory order: at most `most` of them,
// never NaN. Indices are flat.
struct RankedElement {
  std::int64_t index = 0;
  double value = 0;
};
std::vector<RankedElement> largest_elements(const Value& value, int most);

std::string summary_text(const ValueSummary& summary);
std::string summary_json(const std::string& name, const ValueSummary& summary);

}  // namespace tessera::report
