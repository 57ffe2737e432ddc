// How long each step of a plan takes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cost/roofline.h"
#include "plan/plan.h"
#include "tessera/session.h"

namespace tessera::report {

// Made-up inputs of a model that is to be timed. The learning rate of a training step (train/net/training_graph.h) is
// too small to change its weights much: with others they soon are no numbers, and the step leaves out its update.
NamedValues inputs_to_time(const Model& model, std::uint64_t seed);

// Seconds of each step of the model's own graph, the lower quartile of `runs` warm runs: what other programs add does
// not count. Stops early, with at least three runs, when `seconds` have passed.
std::vector<double> step_seconds(Session& session, const NamedValues& inputs, int runs, double seconds,
                                 const RunOptions& run = {});

// Work of each step with its kernel; nothing for steps whose operands' types depend on data, and for subgraphs. Views
// are no work.
std::vector<std::optional<cost::Work>> work_of_steps(const plan::Plan& plan, cost::WorkPrecision precision = {});

// The names of all passes but those that shapes, and the branches that these decide, need: what an optimiser may leave
// out.
std::vector<std::string> passes_that_optimise();

// Bytes that a plan keeps in memory: constants and the arena.
double resident_bytes(const plan::Plan& plan);

// Of these a run with such steps touches weights (a few rows of a table that is looked up in) and the arena.
cost::Surroundings surroundings_of(const plan::Plan& plan, std::span<const std::optional<cost::Work>> works);

}  // namespace tessera::report
