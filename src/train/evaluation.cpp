#include "train/evaluation.h"

#include <algorithm>
#include <vector>

#include "train/metrics.h"

namespace tessera::train {
namespace {

// Labels that the mean of cross-entropy counts.
template <typename T>
std::int64_t labels_that_count(const Tensor& target, std::int64_t ignored) {
  return std::ranges::count_if(target.values<T>(),
                               [&](T label) { return static_cast<std::int64_t>(label) != ignored; });
}

// Samples that a loss averages over.
double counted(const Tensor& target, const LossOptions& loss, std::int64_t samples) {
  if (loss.name != "cross_entropy") return static_cast<double>(samples);
  if (target.dtype() == DType::i64)
    return static_cast<double>(labels_that_count<std::int64_t>(target, loss.ignore_index));
  if (target.dtype() == DType::i32)
    return static_cast<double>(labels_that_count<std::int32_t>(target, loss.ignore_index));
  return static_cast<double>(target.elements());
}

LoaderOptions in_order(const EvaluatorOptions& options, std::int64_t samples) {
  LoaderOptions loader;
  loader.batch = std::min(options.batch, samples);
  loader.shuffle = false;
  loader.drop_last = options.whole_batches;
  loader.workers = options.workers;
  return loader;
}

}  // namespace

std::string default_metric(const std::string& loss) {
  if (loss == "cross_entropy" || loss == "distillation") return "accuracy";
  return loss == "bce" || loss == "focal" ? "auc" : "loss";
}

bool is_better(const std::string& metric, double value, double other) {
  return metric != "loss" && larger_is_better(metric) ? value > other : value < other;
}

Evaluator::Evaluator(const Model& graph, Binding binding, std::shared_ptr<const Dataset> data, TransformList transforms,
                     const EvaluatorOptions& options)
    : options_(options),
      binding_(std::move(binding)),
      prediction_(graph.outputs()[0].name),
      session_(graph, options.session),
      size_(data->size()),
      loader_(data, std::move(transforms), in_order(options, data->size())) {
  if (options_.metric != "loss") make_metric(options_.metric);  // throws for one that is unknown
}

EvaluationReport Evaluator::run(const std::map<std::string, Tensor>& weights, const Cancellation* cancellation) {
  for (const auto& [name, value] : weights) session_.set_variable(name, value);
  const std::unique_ptr<Metric> metric =
      options_.metric == "loss" ? nullptr : make_metric(options_.metric, options_.loss.ignore_index);
  loader_.seek({});
  RunOptions how;
  how.cancellation = cancellation;
  double loss = 0, weight = 0;
  EvaluationReport report;
  for (bool ends = false; !ends;) {
    const Batch batch = loader_.next();
    ends = batch.ends_epoch;
    const NamedValues inputs = inputs_of(binding_, batch.fields);
    const std::vector<Value> outputs = session_.run(inputs, {prediction_, "loss"}, how);
    const Tensor& target = batch.fields.at(binding_.target);
    const double count = counted(target, options_.loss, batch.samples);
    loss += count * static_cast<double>(outputs[1].tensor().data<float>()[0]);
    weight += count;
    report.samples += batch.samples;
    if (metric) metric->add(outputs[0].tensor(), target);
  }
  report.metric = options_.metric;
  report.loss = weight > 0 ? loss / weight : 0;
  report.value = metric ? metric->value() : report.loss;
  return report;
}

}  // namespace tessera::train
