#include "cost/predictor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace tessera::cost {
namespace {

// The least weight of a new measurement in the usual correction: the mean of the first ones, then a slow moving
// average.
constexpr double kLeastRate = 0.01;

}  // namespace

std::uint64_t step_key(std::string_view op, double operations, double bytes) {
  std::uint64_t key = std::hash<std::string_view>{}(op);
  for (const double part : {operations, bytes})
    key = (key ^ std::bit_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15u + (key >> 29);
  return key;
}

double Predictor::predict(std::uint64_t key, double modelled_ns) const {
  const auto found = corrections_.find(key);
  return modelled_ns * (found != corrections_.end() ? found->second.factor : std::exp(usual_log_));
}

void Predictor::learn(std::uint64_t key, double modelled_ns, double measured_ns) {
  if (modelled_ns <= 0 || measured_ns <= 0) return;
  const double factor = measured_ns / modelled_ns;
  ++samples_;
  usual_log_ += (std::log(factor) - usual_log_) * std::max(1.0 / static_cast<double>(samples_), kLeastRate);
  if (corrections_.size() >= kMostKinds && !corrections_.contains(key)) return;
  Correction& known = corrections_[key];
  known.latest[static_cast<std::size_t>(known.samples++) % kRemembered] = static_cast<float>(factor);
  // The median follows a change within a few measurements and ignores outliers, such as those from a page fault or
  // another program.
  std::array<float, kRemembered> sorted = known.latest;
  const auto end = sorted.begin() + std::min<std::ptrdiff_t>(known.samples, kRemembered);
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  known.factor = *middle;
}

void Predictor::judge(double predicted_ns, double measured_ns) {
  if (measured_ns <= 0) return;
  const double error = std::abs(predicted_ns - measured_ns) / measured_ns;
  if (errors_.size() < kKept) errors_.push_back(error);
  else errors_[next_error_++ % kKept] = error;
}

double Predictor::median_error() const {
  if (errors_.empty()) return 0;
  std::vector<double> sorted = errors_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace tessera::cost
