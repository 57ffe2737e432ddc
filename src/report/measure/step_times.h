// Measures how long each step of a plan takes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cost/roofline.h"
#include "plan/plan.h"
#include "tessera/session.h"

namespace tessera::report {

// Random inputs for timing a model. The learning rate of a training step (train/net/training_graph.h) is too small to
// change its weights much; otherwise they would soon be NaN, and the step would leave out its update.
NamedValues inputs_to_time(const Model& model, std::uint64_t seed);

// Seconds of each step of the model's own graph: the lower quartile of `runs` warm runs, which excludes the effect of
// other programs. Stops early, after at least three runs, when `seconds` have passed.
std::vector<double> step_seconds(Session& session, const NamedValues& inputs, int runs, double seconds,
                                 const RunOptions& run = {});

// The work of each step with its kernel; nothing for steps whose operand types depend on data, and for subgraphs. Views
// have no work.
std::vector<std::optional<cost::Work>> work_of_steps(const plan::Plan& plan, cost::WorkPrecision precision = {});

// The names of the passes that an optimiser may leave out: all but those that are needed for shapes and for the
// branches that shapes decide.
std::vector<std::string> passes_that_optimise();

// Bytes that a plan keeps in memory: constants and the arena.
double resident_bytes(const plan::Plan& plan);

// The bytes that a run with such steps touches: weights (only a few rows of tables that are looked up in) and the
// arena.
cost::Surroundings surroundings_of(const plan::Plan& plan, std::span<const std::optional<cost::Work>> works);

}  // namespace tessera::report
