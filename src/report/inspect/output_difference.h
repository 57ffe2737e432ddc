// Measures how far the results of two runs are apart.
#pragma once

#include <string>
#include <vector>

#include "tessera/session.h"

namespace tessera::report {

// The tolerance: elements may differ by absolute + relative * the largest |a| of the output. Texts must be equal.
struct Closeness {
  double relative = 1e-3;  // more than a different order of rounding explains
  double absolute = 0;
};

struct OutputDifference {
  std::string name;
  bool identical = false;  // bit for bit
  bool close = false;      // whether every element is within the tolerance
  std::string mismatch;    // difference of kind, element type or shape, in words; all figures are meaningless then
  double largest =
      0;  // the largest |a - b|; infinite for NaN or infinities that only one of them has, and for unequal texts
  double relative = 0;  // `largest` relative to the largest |a| of the output
  // Computed over the elements that are finite in both, with A as the signal and B - A as the noise: the cosine of the
  // angle between them, and the signal-to-noise ratio in decibels, infinite if there is no noise. `has_ratios` is false
  // if there are no such elements, or a mismatch.
  bool has_ratios = false;
  double cosine = 1, snr_db = 0;
  // For tensors of numbers:
  std::int64_t elements = 0, different_elements = 0;
  Shape first;                      // index of the first element beyond the tolerance, if there is one
  double first_a = 0, first_b = 0;  // its values
};

// One entry per output of `a`; both runs must have the same outputs.
std::vector<OutputDifference> output_differences(const NamedValues& a, const NamedValues& b,
                                                 const Closeness& closeness = {});

}  // namespace tessera::report
