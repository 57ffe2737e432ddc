// How far the results of two runs lie apart.
#pragma once

#include <string>
#include <vector>

#include "tessera/session.h"

namespace tessera::report {

struct OutputDifference {
  std::string name;
  bool identical = false;      // to the bit
  std::string mismatch;        // of kind, element type or shape, in words; the numbers mean nothing then
  double largest = 0;          // of |a - b|; infinite where one has NaN or an infinity and the other another value, and for unequal texts
  double relative = 0;         // that, in parts of the largest |a| of the output
};

// One entry an output of `a`; both runs have the same outputs.
std::vector<OutputDifference> output_differences(const NamedValues& a, const NamedValues& b);

}  // namespace tessera::report
