// How far the results of two runs lie apart.
#pragma once

#include <string>
#include <vector>

#include "tessera/session.h"

namespace tessera::report {

// How far elements may lie apart: absolute + relative * the largest |a| of the output. Texts must be equal.
struct Closeness {
  double relative = 1e-3;  // more than rounding in another order explains
  double absolute = 0;
};

struct OutputDifference {
  std::string name;
  bool identical = false;  // to the bit
  bool close = false;      // no element is further from its counterpart than it may be
  std::string mismatch;    // of kind, element type or shape, in words; the numbers mean nothing then
  double largest =
      0;  // of |a - b|; infinite where one has NaN or an infinity and the other another value, and for unequal texts
  double relative = 0;  // that, in parts of the largest |a| of the output
  // Of the elements that are finite in both, with A as the signal and B - A as the noise: the cosine of the angle
  // between them, and the ratio of signal to noise in decibel, infinite where there is no noise. has_ratios: there are
  // such elements, and no mismatch.
  bool has_ratios = false;
  double cosine = 1, snr_db = 0;
  // Of a tensor of numbers:
  std::int64_t elements = 0, different_elements = 0;
  Shape first;                      // index of the first element that is too far, if there is one,
  double first_a = 0, first_b = 0;  // and its values
};

// One entry an output of `a`; both runs have the same outputs.
std::vector<OutputDifference> output_differences(const NamedValues& a, const NamedValues& b,
                                                 const Closeness& closeness = {});

}  // namespace tessera::report
