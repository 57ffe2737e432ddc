#include "compress/quantise/range_estimator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tessera {

RangeEstimator parse_range_estimator(std::string_view name) {
  for (const RangeEstimator each : {RangeEstimator::automatic, RangeEstimator::min_max, RangeEstimator::percentile,
                                    RangeEstimator::mse, RangeEstimator::kl}) {
    if (name == name_of(each)) return each;
  }
  fail(ErrorKind::invalid_argument, "there is no range estimator '{}'; there are auto, minmax, percentile, mse and kl",
       name);
}

std::string_view name_of(RangeEstimator estimator) {
  switch (estimator) {
    case RangeEstimator::automatic:
      return "auto";
    case RangeEstimator::min_max:
      return "minmax";
    case RangeEstimator::percentile:
      return "percentile";
    case RangeEstimator::mse:
      return "mse";
    case RangeEstimator::kl:
      return "kl";
  }
  return "";
}

}  // namespace tessera

namespace tessera::compress {
namespace {

constexpr double kLevels = 255;

}  // namespace

UnsignedScale unsigned_scale(ValueRange range) {
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  const auto scale = static_cast<float>((high - low) / kLevels);
  if (!(scale > std::numeric_limits<float>::min())) return {};
  return {scale, static_cast<int>(std::clamp(std::nearbyint(-low / static_cast<double>(scale)), 0.0, kLevels))};
}

void ValueHistogram::add(std::span<const float> values) {
  if (values.empty()) return;
  const auto [least, most] = std::ranges::minmax_element(values);
  const double low = static_cast<double>(*least), high = static_cast<double>(*most);
  lowest_ = count_ == 0 ? low : std::min(lowest_, low);
  highest_ = count_ == 0 ? high : std::max(highest_, high);
  cover(lowest_, highest_);
  const double inverse = 1 / width_;
  for (const float value : values) {
    const auto bin = static_cast<std::int64_t>(std::floor(static_cast<double>(value) * inverse)) - first_;
    ++bins_[static_cast<std::size_t>(bin)];
  }
  count_ += static_cast<std::int64_t>(values.size());
}

// Makes the bins cover [low, high], by doubling their width and merging their counts.
void ValueHistogram::cover(double low, double high) {
  const double least_width = std::max((high - low) / (kBins - 2), std::max(std::abs(low), std::abs(high)) * 1e-9);
  double width = width_;
  if (width == 0) width = std::exp2(std::ceil(std::log2(std::max(least_width, 1e-30))));
  while (width < least_width) width *= 2;
  const auto first = static_cast<std::int64_t>(std::floor(low / width));
  if (!bins_.empty() && width == width_ && first >= first_ &&
      static_cast<std::int64_t>(std::floor(high / width)) < first_ + kBins)
    return;
  std::vector<std::int64_t> moved(kBins, 0);
  for (int i = 0; i < static_cast<int>(bins_.size()); ++i) {
    if (bins_[static_cast<std::size_t>(i)] == 0) continue;
    const auto to = static_cast<std::int64_t>(std::floor(left_of(i) / width)) - first;
    moved[static_cast<std::size_t>(to)] += bins_[static_cast<std::size_t>(i)];
  }
  bins_ = std::move(moved);
  width_ = width;
  first_ = first;
}

ValueRange ValueHistogram::estimate(RangeEstimator estimator, double percentile) const {
  if (count_ == 0) return {};
  switch (estimator) {
    case RangeEstimator::percentile:
      return percentile_range(percentile);
    case RangeEstimator::mse:
      return least_squares_range();
    case RangeEstimator::kl:
      return least_divergence_range();
    default:
      return extremes();
  }
}

ValueRange ValueHistogram::percentile_range(double percentile) const {
  const double outside = static_cast<double>(count_) * (100 - percentile) / 100;
  double seen = 0;
  int low = 0, high = kBins - 1;
  while (low < kBins - 1 && (seen += static_cast<double>(bins_[static_cast<std::size_t>(low)])) <= outside) ++low;
  seen = 0;
  while (high > low && (seen += static_cast<double>(bins_[static_cast<std::size_t>(high)])) <= outside) --high;
  return {std::max(left_of(low), lowest_), std::min(left_of(high + 1), highest_)};
}

// The mean squared error of rounding the values to 256 levels of the range, with each value at the middle of its bin.
// If a step is wider than a bin, values are taken as evenly distributed within it: the error is step² / 12.
double ValueHistogram::squared_error(ValueRange range) const {
  const UnsignedScale scale = unsigned_scale(range);
  const double step = static_cast<double>(scale.scale), low = -scale.zero_point * step,
               high = (kLevels - scale.zero_point) * step;
  double sum = 0;
  for (int i = 0; i < kBins; ++i) {
    const std::int64_t n = bins_[static_cast<std::size_t>(i)];
    if (n == 0) continue;
    const double middle = left_of(i) + width_ / 2;
    const double beyond = middle < low ? low - middle : middle > high ? middle - high : 0;
    sum += static_cast<double>(n) * (beyond * beyond + step * step / 12);
  }
  return sum / static_cast<double>(count_);
}

// Shrinks both ends in turn to where the error is least.
ValueRange ValueHistogram::least_squares_range() const {
  constexpr int kSteps = 64, kRounds = 2;
  const ValueRange widest{std::min(lowest_, 0.0), std::max(highest_, 0.0)};
  ValueRange best = widest;
  double error = squared_error(best);
  for (int round = 0; round < kRounds; ++round) {
    for (const bool upper : {true, false}) {
      for (int i = 1; i <= kSteps; ++i) {
        ValueRange tried = best;
        (upper ? tried.high : tried.low) = (upper ? widest.high : widest.low) * i / kSteps;
        const double found = squared_error(tried);
        if (found < error) {
          error = found;
          best = tried;
        }
      }
    }
  }
  return best;
}

// The clipping threshold on magnitudes for which the distribution of the quantised values diverges least from that of
// the clipped ones (Kullback-Leibler divergence; S. Migacz, "8-bit inference with TensorRT", 2017), with 128 levels of
// magnitude, or 256 if all values have the same sign.
ValueRange ValueHistogram::least_divergence_range() const {
  const bool one_sided = lowest_ >= 0 || highest_ <= 0;
  const double most = std::max(std::abs(lowest_), std::abs(highest_));
  if (most == 0) return {};
  constexpr int kBuckets = 2048;
  const int levels = one_sided ? 256 : 128;
  std::vector<double> counts(kBuckets, 0);
  for (int i = 0; i < kBins; ++i) {
    const double magnitude = std::abs(left_of(i) + width_ / 2);
    counts[static_cast<std::size_t>(std::min(kBuckets - 1.0, magnitude / most * kBuckets))] +=
        static_cast<double>(bins_[static_cast<std::size_t>(i)]);
  }
  // Zero is exact with any threshold, so the many zeros behind a Relu must not count.
  counts[0] = std::min(counts[0], counts[1]);
  const double total = std::max(1.0, std::accumulate(counts.begin(), counts.end(), 0.0));
  double best = std::numeric_limits<double>::infinity();
  int best_end = kBuckets;
  for (int end = levels; end <= kBuckets; end += 16) {
    double outside = 0, divergence = 0;
    for (int i = end; i < kBuckets; ++i) outside += counts[static_cast<std::size_t>(i)];
    for (int level = 0; level < levels; ++level) {
      const int from = static_cast<int>(std::int64_t{level} * end / levels),
                to = static_cast<int>(std::int64_t{level + 1} * end / levels);
      double sum = 0;
      int filled = 0;
      for (int i = from; i < to; ++i) {
        sum += counts[static_cast<std::size_t>(i)];
        filled += counts[static_cast<std::size_t>(i)] > 0 ? 1 : 0;
      }
      if (filled == 0 && !(level == levels - 1 && outside > 0)) continue;
      const double q = std::max(filled > 0 ? sum / filled : 0, 1e-4 * total / kBuckets);
      for (int i = from; i < to; ++i) {
        double p = counts[static_cast<std::size_t>(i)];
        if (i == end - 1) p += outside;
        if (p > 0) divergence += p / total * std::log(p / q);
      }
    }
    if (divergence < best) {
      best = divergence;
      best_end = end;
    }
  }
  const double threshold = most * best_end / kBuckets;
  return {std::max(lowest_, -threshold), std::min(highest_, threshold)};
}

}  // namespace tessera::compress
