#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compress/core/output_metric.h"
#include "compress/core/reference_outputs.h"
#include "tessera/prune.h"

namespace tessera {
namespace {

using namespace compress;

void check(const PruneDiagnosisOptions& diagnosis) {
  require(!diagnosis.data.path.empty(), ErrorKind::invalid_argument,
          "what pruning costs is measured on data, but none were given (--data)");
  require(diagnosis.data.batch >= 1 && diagnosis.diagnosis_samples >= 0, ErrorKind::invalid_argument,
          "batch is {} and diagnosis_samples {}, expected at least 1 and at least 0", diagnosis.data.batch,
          diagnosis.diagnosis_samples);
}

void say(const PruneDiagnosisOptions& diagnosis, std::string_view what, double done) {
  if (diagnosis.progress) diagnosis.progress(what, done);
}

// The model with one layer pruned, or nothing if it cannot be pruned alone.
std::optional<Model> with_one_pruned(const Model& model, OneShotPruneOptions options, const std::string& layer) {
  options.only = {layer};
  options.global = false;
  try {
    return prune(model, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument) throw;
    return std::nullopt;  // no channel of it, or none of its weights, can be removed
  }
}

// The sparsities to try; a structure N:M determines its own.
std::vector<double> tried(const OneShotPruneOptions& options, const PruneDiagnosisOptions& diagnosis,
                          const PruneReport& report) {
  if (options.structure == "none" || options.structure == "channels") return diagnosis.sparsities;
  double all = 0, nonzero = 0;
  for (const PrunedLayer& layer : report.layers) {
    all += static_cast<double>(layer.weights_after);
    nonzero += static_cast<double>(layer.nonzero_after);
  }
  return {1 - nonzero / std::max(1.0, all)};
}

}  // namespace

void diagnose_pruning(const Model& before, const Model& after, const OneShotPruneOptions& options,
                      const PruneDiagnosisOptions& diagnosis, PruneReport& report) {
  check(diagnosis);
  const ReferenceOutputs reference(before, diagnosis.data, diagnosis.session, diagnosis.diagnosis_samples);
  const OutputMetric metric(diagnosis.metric, before, diagnosis.data, diagnosis.session);
  report.metric = metric.name();
  report.metric_before = metric.of(before);
  report.metric_after = metric.of(after);
  const OutputSnr difference = compare_outputs(reference, before, after, diagnosis.data, diagnosis.session);
  report.snr_db = difference.snr_db;
  report.snr_samples = difference.samples;
  report.diagnosis_samples = reference.samples();
  double done = 0;
  for (PrunedLayer& layer : report.layers) {
    say(diagnosis, fmt::format("diagnosing {}", layer.name), done);
    done += 1 / static_cast<double>(report.layers.size());
    const std::optional<Model> pruned = with_one_pruned(before, options, layer.name);
    if (pruned) layer.snr_db = reference.snr_db_of(*pruned);
  }
  say(diagnosis, "done", 1);
}

PruneSensitivity prune_sensitivity(const Model& model, const OneShotPruneOptions& options,
                                   const PruneDiagnosisOptions& diagnosis) {
  check(diagnosis);
  for (const double sparsity : diagnosis.sparsities)
    require(sparsity > 0 && sparsity < 1, ErrorKind::invalid_argument, "a sparsity is {}, expected a number in (0, 1)",
            sparsity);
  PruneReport report;
  prune(model, options, &report);  // lists the layers, and checks the options
  const ReferenceOutputs reference(model, diagnosis.data, diagnosis.session, diagnosis.diagnosis_samples);
  const OutputMetric metric(diagnosis.metric, model, diagnosis.data, diagnosis.session);
  PruneSensitivity result{metric.name(), metric.of(model), reference.samples(), {}};
  const std::vector<double> sparsities = tried(options, diagnosis, report);
  double done = 0;
  for (const PrunedLayer& layer : report.layers) {
    LayerSensitivity each{layer.name, layer.label, layer.weights_before, {}};
    for (const double sparsity : sparsities) {
      say(diagnosis, fmt::format("pruning {} by {:.0f}%", layer.name, 100 * sparsity), done);
      done += 1 / static_cast<double>(report.layers.size() * sparsities.size());
      OneShotPruneOptions one = options;
      one.sparsity = sparsity;
      const std::optional<Model> pruned = with_one_pruned(model, one, layer.name);
      if (pruned) each.points.push_back({sparsity, metric.of(*pruned), reference.snr_db_of(*pruned)});
    }
    result.layers.push_back(std::move(each));
  }
  say(diagnosis, "done", 1);
  return result;
}

}  // namespace tessera
