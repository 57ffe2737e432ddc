// Measured corrections of a device's cost model: the factors between the times of kernels and their rooflines.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

namespace tessera::cost {

// The features of an operator's work that affect its kernels, each as a logarithm to base 2 (0 for 0): operations,
// bytes of activations, bytes of weights, and M, N, K of the product (or, without a product: rows, innermost dimension,
// and the batch of a recurrent layer). The last feature is kResultDistance for an operator that writes a result of the
// model, because the run has to allocate that memory first.
inline constexpr std::size_t kShapeFeatures = 7;
inline constexpr double kResultDistance = 3;
using ShapeClass = std::array<double, kShapeFeatures>;

// One kernel measured on one shape.
struct Sample {
  std::string kernel;
  ShapeClass shape{};
  double factor = 1;     // measured time / roofline time, both without overhead
  bool learned = false;  // true: from a model that the user ran; false: from calibration
};

// Interpolates the factor of a kernel for a shape from its samples; nearer shapes have more weight.
class Correction {
 public:
  Correction() = default;
  explicit Correction(std::vector<Sample> samples) : samples_(std::move(samples)) {}

  // The factor measured / roofline for the kernel on the shape; for a kernel that was never measured, the usual factor
  // of others. 1 without samples.
  double factor(std::string_view kernel, const ShapeClass& shape) const;
  bool knows(std::string_view kernel) const;
  // Adds samples. The median of samples with equal kernel and shape replaces the earlier samples of them. The latest
  // kMostLearned learned samples are kept.
  void learn(std::span<const Sample> samples);
  static constexpr std::size_t kMostLearned = 2000;
  bool empty() const { return samples_.empty(); }
  std::span<const Sample> samples() const { return samples_; }

 private:
  std::vector<Sample> samples_;
};

}  // namespace tessera::cost
