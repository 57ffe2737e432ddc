// Measures how good a net is on test data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/train.h"
#include "train/data/loader.h"
#include "train/run/binding.h"
#include "train/run/data_faults.h"

namespace tessera::train {

// The default metric for a loss: accuracy for class losses, auc for bce and focal, and the loss itself for others.
std::string default_metric(const std::string& loss);
// Whether `value` of the metric is better than `other`. The metric is "loss" or one of train/evaluation/metrics.h,
// perhaps with the output that it is for behind an @.
bool is_better(const std::string& metric, double value, double other);

class ClassCounts;
class Metric;

struct EvaluatorOptions {
  std::vector<LossOptions> losses;   // those of the graph
  std::vector<std::string> metrics;  // at least one; the first is the report's `metric`
  SessionOptions session;
  std::int64_t batch = 32;
  int workers = 1;
  bool whole_batches = false;  // the net takes only whole batches: smaller ones are filled up, see Evaluator::run
  std::string data = "test";   // the name of the data
  std::map<std::string, TargetRange> targets;  // by field; others are not checked
  std::vector<std::size_t> predictions;        // for each loss, the index of the graph's output that it compares
};

// Evaluates a net's evaluation graph (train/net/training_graph.h) in a session with variables of its own, so that a
// training may go on meanwhile. Not thread-safe.
class Evaluator {
 public:
  // Throws Error(invalid_argument) for an unknown metric, and for one of an output that no loss compares.
  Evaluator(const Model& graph, Binding binding, std::shared_ptr<const Dataset> data, TransformList transforms,
            const EvaluatorOptions& options);

  // The fields of a sample in a batch.
  const std::vector<Field>& fields() const { return loader_.fields(); }

  // Throws Error(invalid_argument) if a metric does not fit the target and the net's prediction of a batch, whose shape
  // is given for each loss (empty if not known, and then not checked).
  void check_metrics(const std::vector<Shape>& predictions) const;

  // `weights` are by the names of the graph's variables. Does not set `step` and `best` of the report. Samples that
  // cannot be read are left out and counted, so that batches may be smaller. If the net takes only whole batches,
  // smaller ones are filled up with copies of a sample, whose part of the loss is subtracted. Throws Error(cancelled)
  // if cancelled, as runs do, and Error(invalid_argument) that names the sample for a label that is no class.
  EvaluationReport run(const std::map<std::string, Tensor>& weights, const Cancellation* cancellation = nullptr);

 private:
  // A metric and the loss that it belongs to; "loss" combines all losses.
  struct Measure {
    std::string description, name;
    std::size_t loss = 0;
  };
  Measure measure_of(const std::string& description) const;

  EvaluatorOptions options_;
  Binding binding_;
  std::vector<OutputRequest> outputs_;  // of the graph
  std::vector<Measure> measures_;
  std::vector<std::string> class_names_;
  Session session_;
  Loader loader_;

  // Sums over the batches.
  struct Sums {
    std::vector<double> losses, weights;           // of each loss
    std::vector<std::unique_ptr<Metric>> metrics;  // one per measure; null for "loss"
    std::unique_ptr<ClassCounts> classes;
    std::int64_t samples = 0;
  };
  Sums empty_sums() const;
  void test(const Batch& batch, const RunOptions& how, Sums& sums);
  // Adds the outputs for samples with these fields to the sums.
  void count(const std::vector<Tensor>& predictions, const std::map<std::string, Tensor>& fields, Sums& sums) const;
};

}  // namespace tessera::train
