// The weights and the bias of a layer in the form that its kernel reads. Constants are packed once, through the weight
// store. Weights that are variables or computed, as in a training step, are packed by each run into its scratch memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// A packing of weights in independent pieces, which different threads may pack.
struct WeightPacking {
  std::string name;  // for WeightStore::find_or_pack
  std::int64_t floats = 0, pieces = 1;
  std::function<void(const float* weights, float* to, std::int64_t piece)> pack;
};

// A packing of the bias into a number of floats that are zero before `place` is called; without a bias they stay zero.
struct BiasPlacement {
  std::int64_t floats = 0;
  std::function<void(const float* bias, float* to)> place;
};

class LayerOperands {
 public:
  struct Pointers {
    const float *weights = nullptr, *bias = nullptr;  // packed
  };

  // The operands of a node with its weights in input 1 and an optional bias in input 2. `store` outlives this.
  LayerOperands(const ops::NodeView& view, WeightStore& store, WeightPacking packing, BiasPlacement placement);

  // Bytes of scratch memory that `prepare` needs; a multiple of 64.
  std::int64_t scratch_bytes() const;
  // Packs the operands that are not constants, with all threads of the run. `scratch` holds scratch_bytes(), 64-byte
  // aligned; the result is valid as long as the scratch memory and this object.
  Pointers prepare(KernelContext& context, std::byte* scratch) const;
  // The packed operands if both are constants.
  Pointers constants() const;

 private:
  std::int64_t weight_bytes() const;  // in scratch memory

  WeightPacking packing_;
  BiasPlacement placement_;
  bool variable_weights_, variable_bias_;
  std::vector<float> bias_;
  std::shared_ptr<const PackedWeights> weights_;
};

// Returns "" or why a kernel that keeps packed constants of a layer cannot run: weights or bias are not constants.
std::string reject_variable_operands(const ops::NodeView& view);

}  // namespace tessera::backends::cpu
