// Describes what each pass of the optimiser does to a model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "tessera/optimise.h"
#include "tessera/session.h"

namespace tessera::report {

struct PassEffect {
  std::string name;
  std::string_view summary;  // a sentence: what the pass does, and what for
  std::int64_t nodes_before = 0, nodes_after = 0;
};

// The sentence for a pass; "" for an unknown name.
std::string_view pass_summary(std::string_view name);

// The passes that change the model on the way to `plan`, in order: first those that run with symbolic dimensions, then
// those that run for the plan's shapes. Empty for a package that was optimised for this device.
std::vector<PassEffect> pass_effects(const Model& model, const SessionOptions& options, const plan::Plan& plan);

}  // namespace tessera::report
