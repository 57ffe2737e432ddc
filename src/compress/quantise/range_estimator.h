// Estimates ranges of activations from a stream of values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/quantise.h"

namespace tessera::compress {

struct ValueRange {
  double low = 0, high = 0;
};

// real = scale · (q − zero_point), q from 0 to 255.
struct UnsignedScale {
  float scale = 1;
  int zero_point = 0;
};

// The scale for the range, extended to include zero, so that zero is represented exactly; an empty range gets scale 1.
UnsignedScale unsigned_scale(ValueRange range);

// A histogram with bins of equal width. The width is a power of two that doubles when a value lies outside, so that
// memory is bounded and the result does not depend on the order of the values, except for those before the first
// nonzero value.
class ValueHistogram {
 public:
  static constexpr int kBins = 4096;

  // All values must be finite.
  void add(std::span<const float> values);

  std::int64_t count() const { return count_; }
  ValueRange extremes() const { return {lowest_, highest_}; }
  // Without values, every estimate is [0, 0]. `percentile`, in (50, 100], is that of the values on each side of the
  // median.
  ValueRange estimate(RangeEstimator estimator, double percentile) const;

 private:
  void cover(double low, double high);
  double left_of(int bin) const { return static_cast<double>(first_ + bin) * width_; }
  ValueRange percentile_range(double percentile) const;
  ValueRange least_squares_range() const;
  ValueRange least_divergence_range() const;
  double squared_error(ValueRange range) const;

  std::vector<std::int64_t> bins_;
  std::int64_t first_ = 0;  // the first bin begins at first_ · width_
  double width_ = 0;
  double lowest_ = 0, highest_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace tessera::compress
