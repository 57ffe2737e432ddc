// How good a net is on test data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tessera/train.h"
#include "train/binding.h"
#include "train/data/loader.h"
#include "train/data_faults.h"

namespace tessera::train {

// The metric that fits a loss: accuracy of class losses, auc of bce and focal, loss of others.
std::string default_metric(const std::string& loss);
// Whether a value of the metric is better than another one; beside those of train/metrics.h there is "loss".
bool is_better(const std::string& metric, double value, double other);

class Metric;

struct EvaluatorOptions {
  LossOptions loss;
  std::string metric;
  SessionOptions session;
  std::int64_t batch = 32;
  int workers = 1;
  bool whole_batches = false;         // the net takes no smaller ones: those are filled up, see Evaluator::run
  std::optional<TargetRange> target;  // of the labels; nothing: they are not checked
};

// A session of its own for a net's evaluation graph (train/training_graph.h), with variables of its own: it tests the
// weights that it is given, whatever the training does meanwhile. One thread uses it at a time.
class Evaluator {
 public:
  Evaluator(const Model& graph, Binding binding, std::shared_ptr<const Dataset> data, TransformList transforms,
            const EvaluatorOptions& options);

  // Describes a sample of the data, as it stands in a batch.
  const std::vector<Field>& fields() const { return loader_.fields(); }

  // Throws Error(invalid_argument) when the metric does not fit the net's prediction of a batch, of this shape, and the
  // target.
  void check_metric(const Shape& prediction) const;

  // Weights by the names of the graph's variables. `step` and `best` of the report are not set. Samples that cannot be
  // read are left out and counted, so that batches may be smaller. Where the net takes whole batches alone, copies of a
  // sample fill up a smaller one, and what they add to the loss is taken off. Throws Error(cancelled) when cancelled,
  // as runs do, and Error(invalid_argument) that names the sample for a label that is no class.
  EvaluationReport run(const std::map<std::string, Tensor>& weights, const Cancellation* cancellation = nullptr);

 private:
  EvaluatorOptions options_;
  Binding binding_;
  std::string prediction_;  // the output's name
  Session session_;
  Loader loader_;

  struct Sums {
    double loss = 0, weight = 0;
    std::int64_t samples = 0;
  };
  void test(const Batch& batch, Metric* metric, const RunOptions& how, Sums& sums);
};

}  // namespace tessera::train
