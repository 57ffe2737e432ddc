// Where a model's time goes on a device, what bounds each layer, and what would change that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/advice.h"
#include "cost/convergence.h"
#include "cost/evaluation.h"
#include "report/explain/memory_timeline.h"
#include "report/inspect/pass_effects.h"
#include "tessera/session.h"

namespace tessera::report {

struct ExplainOptions {
  // The first is the one that advice is for; the others stand beside it. At least one.
  std::vector<cost::DeviceProfile> devices;
  bool cpu_measured = true;  // false: the CPU's profile is the rough one
  cost::Precision precision = cost::Precision::f32;
  bool training = false;  // the model is a training step: forward, backward, update
  bool measure = false;   // run it on this CPU and set measured times beside predicted ones
  SessionOptions session;
  RunOptions run;
  std::vector<cost::ConvergencePoint> convergence;
  double samples = 0;  // examples an epoch, for the convergence table
};

struct DeviceReport {
  cost::Evaluation evaluation;
  std::vector<cost::Advice> advice;
  bool fits = true;                // weights and arena, in this precision, into the device's memory
  std::int64_t unknown_nodes = 0;  // without an estimate: shapes that depend on data, subgraphs
};

// The same model with and without what the optimiser does, on the first device.
struct OptimiserReport {
  struct Side {
    std::int64_t nodes = 0;
    double operations = 0, bytes = 0, seconds = 0;
  };
  Side before, after;
  std::vector<PassEffect> passes;  // that changed the model
};

struct MeasuredReport {
  std::size_t device = 0;          // index of the CPU among the devices
  int threads = 0;                 // that ran
  std::vector<double> seconds;     // one a layer of that device
  double total_seconds = 0;        // of all steps of a run
  double unpredicted_seconds = 0;  // of these, of steps without an estimate: shapes that depend on data, subgraphs
  double median_error = 0, p90_error = 0;  // |predicted - measured| / measured of the operators that do something
  double total_error = 0;                  // of the steps with an estimate
};

struct Explanation {
  std::string model;
  std::int64_t batch = 1;  // first dimension of the first input
  bool training = false;
  bool cpu_measured = true;
  std::vector<DeviceReport> devices;
  MemoryTimeline memory;  // of the first device's plan
  OptimiserReport optimiser;
  std::optional<MeasuredReport> measured;
  std::optional<cost::BatchChoice> batch_choice;
  std::int64_t products = 0;  // operators that are matrix products or convolutions
};

// Dimensions that are not fixed count 1; see runtime/session/assumed_dims.h for better ones. Throws Error as sessions
// do, and invalid_argument when a measurement is asked for without a CPU among the devices.
Explanation explain(const Model& model, const std::string& name, const ExplainOptions& options);

// One sentence: how long a run takes, as measured where it was measured, and what bounds most of that.
std::string headline(const Explanation& explanation);
// At which type's rate arithmetic is counted: f32 where the device does not have the one that was asked for.
cost::Precision counted_precision(const cost::Evaluation& evaluation);
// The (at most) three things to do: advice with a gain, largest first, one of a kind; about the machine only where
// there is too little about the model.
std::vector<const cost::Advice*> things_to_do(const DeviceReport& device);

// "Saves 43% of the time"; nothing for advice about the machine.
std::string gain_text(const cost::Advice& advice);

// For a terminal: headline, advice, a table of the slowest operators (of all, if asked), devices side by side.
std::string explanation_text(const Explanation& explanation, bool all_operators);
std::string explanation_json(const Explanation& explanation);
// A page that needs nothing else: no network, no other file.
std::string explanation_html(const Explanation& explanation);

}  // namespace tessera::report
