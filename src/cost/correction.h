// What measuring has taught about a device: by which factor kernels miss the time that the roofline gives.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

namespace tessera::cost {

// A size of an operator's work as kernels feel it; each a logarithm to base 2 (0 for nothing): operations, bytes of
// activations, bytes of weights, and M, N, K of the product (or, without one: rows, innermost dimension, and the batch
// of a recurrent layer). Last, kResultDistance for what writes a result of the model, which is memory that the run has
// to get first.
inline constexpr std::size_t kShapeFeatures = 7;
inline constexpr double kResultDistance = 3;
using ShapeClass = std::array<double, kShapeFeatures>;

// One kernel measured on one shape.
struct Sample {
  std::string kernel;
  ShapeClass shape{};
  double factor = 1;     // measured time / time of the roofline, both without overhead
  bool learned = false;  // from a model of the user's, not from calibration
};

// Samples of a kernel near a shape, each the heavier the nearer it is, give the factor for that shape.
class Correction {
 public:
  Correction() = default;
  explicit Correction(std::vector<Sample> samples) : samples_(std::move(samples)) {}

  // Measured / roofline for the kernel on the shape; for a kernel that was never measured, what others do. 1 without
  // samples.
  double factor(std::string_view kernel, const ShapeClass& shape) const;
  bool knows(std::string_view kernel) const;
  // Takes samples in. Of those alike in kernel and shape the median counts, and it replaces what was known of them. Of
  // learned samples the latest kMostLearned stay.
  void learn(std::span<const Sample> samples);
  static constexpr std::size_t kMostLearned = 2000;
  bool empty() const { return samples_.empty(); }
  std::span<const Sample> samples() const { return samples_; }

 private:
  std::vector<Sample> samples_;
};

}  // namespace tessera::cost
