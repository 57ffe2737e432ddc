// How good a net is on test data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tessera/train.h"
#include "train/binding.h"
#include "train/data/loader.h"

namespace tessera::train {

// The metric that fits a loss: accuracy of class losses, auc of bce and focal, loss of others.
std::string default_metric(const std::string& loss);
// Whether a value of the metric is better than another one; beside those of train/metrics.h there is "loss".
bool is_better(const std::string& metric, double value, double other);

struct EvaluatorOptions {
  LossOptions loss;
  std::string metric;
  SessionOptions session;
  std::int64_t batch = 32;
  int workers = 1;
  bool whole_batches = false;  // the net takes no smaller ones: samples that are left over are not tested
};

// A session of its own for a net's evaluation graph (train/training_graph.h), with variables of its own: it tests the
// weights that it is given, whatever the training does meanwhile. One thread uses it at a time.
class Evaluator {
 public:
  Evaluator(const Model& graph, Binding binding, std::shared_ptr<const Dataset> data, TransformList transforms,
            const EvaluatorOptions& options);

  // Describes a sample of the data, as it stands in a batch.
  const std::vector<Field>& fields() const { return loader_.fields(); }

  // Weights by the names of the graph's variables. `step` and `best` of the report are not set. The last batch may be
  // smaller. Throws Error(cancelled) when cancelled, as runs do.
  EvaluationReport run(const std::map<std::string, Tensor>& weights, const Cancellation* cancellation = nullptr);

 private:
  EvaluatorOptions options_;
  Binding binding_;
  std::string prediction_;  // the output's name
  Session session_;
  std::int64_t size_;
  Loader loader_;
};

}  // namespace tessera::train
