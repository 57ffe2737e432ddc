// Explains where a model's time goes on a device, what bounds each layer, and what would change that.
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
  // At least one device. Advice is for the first; the others are shown beside it for comparison.
  std::vector<cost::DeviceProfile> devices;
  bool cpu_measured = true;  // false if the CPU's profile is the built-in rough one
  cost::Precision precision = cost::Precision::f32;
  bool training = false;  // whether the model is a training step: forward, backward, update
  bool measure = false;   // whether to run it on this CPU and set measured times beside predicted ones
  SessionOptions session;
  RunOptions run;
  std::vector<cost::ConvergencePoint> convergence;
  double samples = 0;  // samples per epoch, for the table of convergence
};

struct DeviceReport {
  cost::Evaluation evaluation;
  std::vector<cost::Advice> advice;
  bool fits = true;                // whether weights and arena, in this precision, fit into the device's memory
  std::int64_t unknown_nodes = 0;  // without an estimate: their shapes depend on data, or they run subgraphs
};

// Compares the model with and without the optimiser, on the first device.
struct OptimiserReport {
  struct Side {
    std::int64_t nodes = 0;
    double operations = 0, bytes = 0, seconds = 0;
  };
  Side before, after;
  std::vector<PassEffect> passes;  // those that changed the model
};

struct MeasuredReport {
  std::size_t device = 0;                  // index of the CPU among the devices
  int threads = 0;                         // number of threads in the measured run
  std::vector<double> seconds;             // one per layer of that device
  double total_seconds = 0;                // of all steps of a run
  double unpredicted_seconds = 0;          // of the steps without an estimate: shapes that depend on data, subgraphs
  double median_error = 0, p90_error = 0;  // of |predicted - measured| / measured over the operators that do something
  double total_error = 0;                  // of the sum over the steps with an estimate
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
  std::int64_t products = 0;  // number of operators that are matrix products or convolutions
};

// Dimensions that are not fixed are taken as 1; see runtime/session/assumed_dims.h for better values. Throws Error as
// sessions do, and Error(invalid_argument) if a measurement is requested without a CPU among the devices.
Explanation explain(const Model& model, const std::string& name, const ExplainOptions& options);

// One sentence: how long a run takes (measured, if there are measurements) and what bounds most of that time.
std::string headline(const Explanation& explanation);
// The type whose arithmetic rate is used: f32 if the device does not have the one that was requested.
cost::Precision counted_precision(const cost::Evaluation& evaluation);
// At most three pieces of advice: those with a gain, the largest first, at most one of each kind. Advice about the
// machine is included only if there is too little about the model.
std::vector<const cost::Advice*> things_to_do(const DeviceReport& device);

// "Saves 43% of the time"; "" for advice without a gain, and for advice about the machine.
std::string gain_text(const cost::Advice& advice);

// Text for a terminal: headline, advice, a table of the slowest operators (or of all), and the devices side by side.
std::string explanation_text(const Explanation& explanation, bool all_operators);
std::string explanation_json(const Explanation& explanation);
// A self-contained HTML page: it needs no network and no other file.
std::string explanation_html(const Explanation& explanation);

}  // namespace tessera::report
