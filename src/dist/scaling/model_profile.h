// The profile of a net that was not measured: from the cost model's evaluations of its training step.
#pragma once

#include <cstdint>
#include <string>

#include "cost/evaluation.h"
#include "dist/scaling/training_profile.h"
#include "ir/graph.h"

namespace tessera::dist {

// The profile of a training step that was evaluated for a `batch` and for twice that batch on the cluster's device. The
// time of a sample is the difference; a step of more than `batch` samples accumulates. `parameters` are those of the
// net without the optimiser's state.
TrainingProfile profile_of_evaluations(const cost::Evaluation& once, const cost::Evaluation& twice, std::int64_t batch,
                                       double parameters, double epoch_samples, const std::string& title);

// The number of floating-point elements that a net holds as constants.
double count_parameters(const ir::Graph& net);

}  // namespace tessera::dist
