// What measuring has taught about a device: by which factor kernels miss the time that the roofline gives.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

namespace tessera::cost {

// A size of an operator's work as kernels feel it; each a logarithm to base 2 (0 for nothing): operations, bytes of activations,
// bytes of weights, and M, N, K of the product (or, without one: rows, innermost dimension, 0).
inline constexpr std::size_t kShapeFeatures = 6;
using ShapeClass = std::array<double, kShapeFeatures>;

// One kernel measured on one shape.
struct Sample {
  std::string kernel;
  ShapeClass shape{};
  double factor = 1;  // measured time / time of the roofline, both without overhead
};

// Samples of a kernel near a shape, each the heavier the nearer it is, give the factor for that shape.
class Correction {
 public:
  Correction() = default;
  explicit Correction(std::vector<Sample> samples) : samples_(std::move(samples)) {}

  // Measured / roofline for the kernel on the shape; for a kernel that was never measured, what others do. 1 without samples.
  double factor(std::string_view kernel, const ShapeClass& shape) const;
  bool knows(std::string_view kernel) const;
  bool empty() const { return samples_.empty(); }
  std::span<const Sample> samples() const { return samples_; }

 private:
  std::vector<Sample> samples_;
};

}  // namespace tessera::cost
