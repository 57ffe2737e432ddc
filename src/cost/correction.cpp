#include "cost/correction.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace tessera::cost {
namespace {

bool alike(const Sample& a, const Sample& b) {
  constexpr double difference = 1e-3;
  return a.kernel == b.kernel &&
         std::ranges::equal(a.shape, b.shape, [](double x, double y) { return std::abs(x - y) < difference; });
}

}  // namespace

double Correction::factor(std::string_view kernel, const ShapeClass& shape) const {
  const bool known = knows(kernel);
  // The weight of a sample falls to a two-hundredth at an octave's distance in one size, and faster with the distance
  // in intensity.
  double weights = 0, sum = 0;
  for (const Sample& sample : samples_) {
    if (known && sample.kernel != kernel) continue;
    const double intensity = (shape[0] - shape[1]) - (sample.shape[0] - sample.shape[1]);
    double distance = 4 * intensity * intensity;
    for (std::size_t i = 0; i < shape.size(); ++i)
      distance += (shape[i] - sample.shape[i]) * (shape[i] - sample.shape[i]);
    const double weight = 1 / (0.005 + distance * distance);
    weights += weight;
    sum += weight * std::log(sample.factor);
  }
  return weights > 0 ? std::exp(sum / weights) : 1;
}

void Correction::learn(std::span<const Sample> samples) {
  std::vector<Sample> left(samples.begin(), samples.end());
  while (!left.empty()) {
    const Sample first = left.front();
    const auto same = [&](const Sample& sample) { return alike(sample, first); };
    const auto group = std::ranges::stable_partition(left, std::not_fn(same));
    const auto median = group.begin() + std::ranges::ssize(group) / 2;
    std::ranges::nth_element(group, median, {}, &Sample::factor);
    std::erase_if(samples_, same);
    samples_.push_back(*median);
    left.erase(group.begin(), group.end());
  }
  std::ptrdiff_t too_many =
      std::ranges::count_if(samples_, &Sample::learned) - static_cast<std::ptrdiff_t>(kMostLearned);
  std::erase_if(samples_, [&](const Sample& sample) { return sample.learned && too_many-- > 0; });
}

bool Correction::knows(std::string_view kernel) const {
  return std::any_of(samples_.begin(), samples_.end(), [&](const Sample& sample) { return sample.kernel == kernel; });
}

}  // namespace tessera::cost
