#include "cost/correction.h"

#include <algorithm>
#include <cmath>

namespace tessera::cost {

double Correction::factor(std::string_view kernel, const ShapeClass& shape) const {
  const bool known = knows(kernel);
  // A sample one octave away in one size counts half of one that is the same.
  double weights = 0, sum = 0;
  for (const Sample& sample : samples_) {
    if (known && sample.kernel != kernel) continue;
    double distance = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) distance += (shape[i] - sample.shape[i]) * (shape[i] - sample.shape[i]);
    const double weight = 1 / (0.05 + distance * distance);
    weights += weight;
    sum += weight * std::log(sample.factor);
  }
  return weights > 0 ? std::exp(sum / weights) : 1;
}

bool Correction::knows(std::string_view kernel) const {
  return std::any_of(samples_.begin(), samples_.end(), [&](const Sample& sample) { return sample.kernel == kernel; });
}

}  // namespace tessera::cost
