// The steps and the memory that a run of a net needs on a device, by the cost model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cost/profile.h"
#include "share/simulation.h"

namespace tessera::share {

struct ModelSteps {
  std::vector<SimulatedStep> steps;
  // Weights; of a training also their gradients and a moment. And the most that intermediate values need at one time;
  // of a training all of them, since the backward pass reads them, and once more for their gradients.
  std::int64_t persistent_bytes = 0, temporary_bytes = 0;
};

// One step for each node of the net as its builder makes it, nothing fused. `dims`: as in models::ModelOptions; a batch
// is 1 and a sequence 128 long where the net has one and nobody says otherwise. A step of training is taken to cost
// three times the forward pass; the backward pass, in reverse order, takes two products of the size of the forward one
// for each layer (Kaplan et al., arXiv:2001.08361, section 2.1). Throws Error(invalid_argument) for unknown nets and
// sizes.
ModelSteps model_steps(const std::string& model, std::map<std::string, std::int64_t> dims, bool training,
                       cost::Precision precision, const cost::DeviceProfile& profile);

}  // namespace tessera::share
