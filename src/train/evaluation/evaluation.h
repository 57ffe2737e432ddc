// How good a net is on test data.
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

// The metric that fits a loss: accuracy of class losses, auc of bce and focal, loss of others.
std::string default_metric(const std::string& loss);
// Whether a value of the metric is better than another one; beside those of train/evaluation/metrics.h, of which
// "@OUTPUT" may say the output, there is "loss".
bool is_better(const std::string& metric, double value, double other);

class ClassCounts;
class Metric;

struct EvaluatorOptions {
  std::vector<LossOptions> losses;   // those of the graph
  std::vector<std::string> metrics;  // at least one; the first is the report's `metric`
  SessionOptions session;
  std::int64_t batch = 32;
  int workers = 1;
  bool whole_batches = false;                  // the net takes no smaller ones: those are filled up, see Evaluator::run
  std::string data = "test";                   // what the data are called
  std::map<std::string, TargetRange> targets;  // by field; others are not checked
  std::vector<std::size_t> predictions;        // which output of the graph each loss compares
};

// A session of its own for a net's evaluation graph (train/net/training_graph.h), with variables of its own: it tests
// the weights that it is given, whatever the training does meanwhile. One thread uses it at a time.
class Evaluator {
 public:
  // Throws Error(invalid_argument) for a metric that is unknown, or one of an output that no loss compares.
  Evaluator(const Model& graph, Binding binding, std::shared_ptr<const Dataset> data, TransformList transforms,
            const EvaluatorOptions& options);

  // Describes a sample of the data, as it stands in a batch.
  const std::vector<Field>& fields() const { return loader_.fields(); }

  // Throws Error(invalid_argument) when a metric does not fit the net's prediction of a batch for its loss, of this
  // shape (empty: not known, and not checked), and the target.
  void check_metrics(const std::vector<Shape>& predictions) const;

  // Weights by the names of the graph's variables. `step` and `best` of the report are not set. Samples that cannot be
  // read are left out and counted, so that batches may be smaller. Where the net takes whole batches alone, copies of a
  // sample fill up a smaller one, and what they add to the loss is taken off. Throws Error(cancelled) when cancelled,
  // as runs do, and Error(invalid_argument) that names the sample for a label that is no class.
  EvaluationReport run(const std::map<std::string, Tensor>& weights, const Cancellation* cancellation = nullptr);

 private:
  // A metric and which loss it belongs to; "loss" is made of all.
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

  // What the batches add up to.
  struct Sums {
    std::vector<double> losses, weights;           // of each loss
    std::vector<std::unique_ptr<Metric>> metrics;  // of each measure; null for "loss"
    std::unique_ptr<ClassCounts> classes;
    std::int64_t samples = 0;
  };
  Sums empty_sums() const;
  void test(const Batch& batch, const RunOptions& how, Sums& sums);
  // Adds the outputs for samples with these fields.
  void count(const std::vector<Tensor>& predictions, const std::map<std::string, Tensor>& fields, Sums& sums) const;
};

}  // namespace tessera::train
