// Weighted reads of planes at real positions, shared by GridSample and DeformConv: all planes of a group are sampled at
// the same positions with the same weights. A block of samples is computed once and then read from every plane of the
// group, or its gradients are added to every plane.
#pragma once

#include <cstdint>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// Sample s is Σ_k weight[k][s] · plane[index[k][s]] over the taps with a nonnegative index.
struct SampleBlock {
  static constexpr std::int64_t kSamples = 128;
  static constexpr int kTaps = 16;
  std::int64_t count = 0;
  int taps = 0;
  alignas(64) std::int32_t index[kTaps][kSamples];
  alignas(64) float weight[kTaps][kSamples];
};

// The derivatives of the weights by `kinds` variables of each sample, such as its position along each axis.
struct SlopeBlock {
  static constexpr int kKinds = 3;
  int kinds = 0;
  alignas(64) float slope[kKinds][SampleBlock::kTaps][SampleBlock::kSamples];
};

// The shape: `groups` times `planes` planes of `plane_elements`, and as many rows of `samples`.
struct SampleLayout {
  std::int64_t groups = 0, planes = 0, plane_elements = 0, samples = 0;

  // Returns why kernels do not support the shape, or "".
  std::string fault() const;
};

// Reads a block from a plane: y[s] = sample s, or y[s] += sample s if `add`. Samples behind the last one, up to the
// next multiple of 16, must have negative indices.
void read_block(const SampleBlock& block, const float* plane, float* y, bool add = false);
// plane += Σ_s dy[s] times the weights of sample s, in the order of the samples and of their taps.
void spread_block(const SampleBlock& block, const float* dy, float* plane);

// Provides the samples of each group.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Fills the first block.count samples with those of the group from `first` on, and `slopes` unless it is null.
  virtual void fill(std::int64_t group, std::int64_t first, SampleBlock& block, SlopeBlock* slopes) const = 0;
  // Receives the sums of slopes over all planes of the group, times the given gradients:
  // [kinds][SampleBlock::kSamples].
  virtual void store(std::int64_t, std::int64_t /*first*/, std::int64_t /*count*/, const float*) const {}
};

// y[plane][s] = sample s of the plane.
void sample_planes(const KernelContext& context, const SampleLayout& layout, const Sampler& sampler, const float* x,
                   float* y);
// dx[plane] = Σ_s dy[plane][s] times the weights of sample s, added in the order of the samples.
void spread_samples(const KernelContext& context, const SampleLayout& layout, const Sampler& sampler, const float* dy,
                    float* dx);
// Calls sampler.store with Σ_planes dy[plane][s] · Σ_k slope[k][s] · plane[index[k][s]], added in the order of planes.
void sum_slopes(const KernelContext& context, const SampleLayout& layout, const Sampler& sampler, const float* x,
                const float* dy);

}  // namespace tessera::backends::cpu
