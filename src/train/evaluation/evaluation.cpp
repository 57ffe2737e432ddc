#include "train/evaluation/evaluation.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "train/evaluation/class_counts.h"
#include "train/evaluation/labelled_predictions.h"
#include "train/evaluation/metrics.h"

namespace tessera::train {
namespace {

// Whether the targets of the loss are class labels, one per position.
bool compares_classes(const LossOptions& loss, const Tensor& prediction, const Tensor& target) {
  if (loss.name == "cross_entropy") return true;
  if (loss.name == "dice") return prediction.rank() > 1 && prediction.shape()[1] > 1;
  if (loss.name != "bce" && loss.name != "focal") return false;
  return is_scores(prediction, target) && (target.rank() <= 1 || target.shape()[1] == 1);
}

using Fields = std::map<std::string, Tensor>;

// Copies of these rows, concatenated.
Tensor row_copies(const Tensor& tensor, const std::vector<std::int64_t>& rows) {
  Shape shape = tensor.shape();
  const std::int64_t bytes = shape[0] > 0 ? tensor.bytes() / shape[0] : 0;
  shape[0] = static_cast<std::int64_t>(rows.size());
  Tensor copies(tensor.dtype(), std::move(shape));
  auto* to = static_cast<std::byte*>(copies.mutable_raw());
  for (const std::int64_t row : rows) {
    if (bytes > 0)
      std::memcpy(to, static_cast<const std::byte*>(tensor.raw()) + row * bytes, static_cast<std::size_t>(bytes));
    to += bytes;
  }
  return copies;
}

Fields rows_of(const Fields& fields, const std::vector<std::int64_t>& rows) {
  Fields copies;
  for (const auto& [name, tensor] : fields) copies[name] = row_copies(tensor, rows);
  return copies;
}

LoaderOptions in_order(const EvaluatorOptions& options, std::int64_t samples) {
  LoaderOptions loader;
  loader.batch = std::min(options.batch, samples);
  loader.shuffle = false;
  loader.drop_last = false;
  loader.replace_unreadable = false;
  loader.workers = options.workers;
  return loader;
}

}  // namespace

std::string default_metric(const std::string& loss) {
  if (loss == "cross_entropy" || loss == "distillation") return "accuracy";
  return loss == "bce" || loss == "focal" ? "auc" : "loss";
}

bool is_better(const std::string& metric, double value, double other) {
  const std::string name = metric.substr(0, metric.find('@'));
  return name != "loss" && larger_is_better(name) ? value > other : value < other;
}

Evaluator::Evaluator(const Model& graph, Binding binding, std::shared_ptr<const Dataset> data, TransformList transforms,
                     const EvaluatorOptions& options)
    : options_(options),
      binding_(std::move(binding)),
      class_names_(data->class_names()),
      session_(graph, options.session),
      loader_(data, std::move(transforms), in_order(options, data->size())) {
  for (const ValueDescription& output : graph.outputs()) outputs_.emplace_back(output.name);
  for (const std::string& metric : options_.metrics) measures_.push_back(measure_of(metric));
}

Evaluator::Measure Evaluator::measure_of(const std::string& description) const {
  const std::size_t at = description.find('@');
  Measure measure{description, description.substr(0, at), 0};
  if (measure.name != "loss") make_metric(measure.name);  // throws for an unknown one
  if (at == std::string::npos) return measure;
  const std::string output = description.substr(at + 1);
  const auto found = std::ranges::find(options_.losses, output, &LossOptions::prediction);
  require(found != options_.losses.end() && measure.name != "loss", ErrorKind::invalid_argument,
          "metric '{}': no loss compares an output '{}'", description, output);
  measure.loss = static_cast<std::size_t>(found - options_.losses.begin());
  return measure;
}

Evaluator::Sums Evaluator::empty_sums() const {
  Sums sums;
  sums.losses.resize(options_.losses.size());
  sums.weights.resize(options_.losses.size());
  for (const Measure& measure : measures_)
    sums.metrics.push_back(
        measure.name == "loss" ? nullptr : make_metric(measure.name, options_.losses[measure.loss].ignore_index));
  sums.classes = std::make_unique<ClassCounts>(options_.losses[0].ignore_index);
  return sums;
}

EvaluationReport Evaluator::run(const std::map<std::string, Tensor>& weights, const Cancellation* cancellation) {
  for (const auto& [name, value] : weights) session_.set_variable(name, value);
  loader_.seek({});
  RunOptions how{.seed = 0};  // makes two evaluations of the same weights agree
  how.cancellation = cancellation;
  Sums sums = empty_sums();
  for (bool ends = false; !ends;) {
    const Batch batch = loader_.next();
    ends = batch.ends_epoch;
    if (batch.samples > 0) test(batch, how, sums);
  }
  EvaluationReport report;
  for (std::size_t i = 0; i < sums.losses.size(); ++i)
    report.loss += options_.losses[i].weight * (sums.weights[i] > 0 ? sums.losses[i] / sums.weights[i] : 0);
  for (std::size_t i = 0; i < measures_.size(); ++i)
    report.metrics.emplace_back(measures_[i].description, sums.metrics[i] ? sums.metrics[i]->value() : report.loss);
  report.metric = report.metrics[0].first;
  report.value = report.metrics[0].second;
  report.samples = sums.samples;
  const LoaderReport read = loader_.report();
  report.skipped_samples = read.skipped;
  report.skipped_reasons = read.reasons;
  report.data = options_.data;
  report.classes = sums.classes->report(class_names_);
  return report;
}

void Evaluator::count(const std::vector<Tensor>& predictions, const Fields& fields, Sums& sums) const {
  const auto target = [&](std::size_t loss) { return fields.at(options_.losses[loss].target); };
  for (std::size_t i = 0; i < measures_.size(); ++i) {
    const std::size_t loss = measures_[i].loss;
    if (sums.metrics[i]) sums.metrics[i]->add(predictions[loss], target(loss));
  }
  if (compares_classes(options_.losses[0], predictions[0], target(0))) sums.classes->add(predictions[0], target(0));
}

void Evaluator::test(const Batch& batch, const RunOptions& how, Sums& sums) {
  for (const auto& [field, range] : options_.targets) check_target(batch, field, range, loader_);
  // Returns the predictions for each loss, and adds the losses, multiplied by `share`, to the sums.
  const auto run = [&](const Fields& fields, double share) {
    const std::vector<Value> outputs = session_.run(inputs_of(binding_, fields), outputs_, how);
    const float* losses = outputs[outputs.size() - 2].tensor().data<float>();
    const float* counts = outputs[outputs.size() - 1].tensor().data<float>();
    std::vector<Tensor> predictions;
    for (std::size_t i = 0; i < options_.predictions.size(); ++i) {
      const double weight = share * static_cast<double>(counts[i]);
      sums.losses[i] += weight * static_cast<double>(losses[i]);
      sums.weights[i] += weight;
      predictions.push_back(outputs[options_.predictions[i]].tensor());
    }
    return predictions;
  };
  sums.samples += batch.samples;
  const std::int64_t filling = options_.whole_batches ? options_.batch - batch.samples : 0;
  if (filling == 0) return count(run(batch.fields, 1), batch.fields, sums);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(options_.batch), 0);
  const Fields copies = rows_of(batch.fields, rows);
  std::iota(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(batch.samples), std::int64_t{0});
  std::vector<Tensor> predictions = run(rows_of(batch.fields, rows), 1);
  run(copies, -static_cast<double>(filling) / static_cast<double>(options_.batch));
  std::vector<std::int64_t> first(static_cast<std::size_t>(batch.samples));
  std::iota(first.begin(), first.end(), std::int64_t{0});
  for (Tensor& prediction : predictions) {
    require(
        prediction.rank() > 0 && prediction.shape()[0] == options_.batch, ErrorKind::unsupported,
        "the prediction {} has not the batch of {} in front, and {} samples are too few for a batch: they cannot be "
        "tested",
        to_string(prediction.shape()), options_.batch, batch.samples);
    prediction = row_copies(prediction, first);
  }
  count(predictions, batch.fields, sums);
}

void Evaluator::check_metrics(const std::vector<Shape>& predictions) const {
  for (const Measure& measure : measures_) {
    const Shape& prediction = predictions[measure.loss];
    if (measure.name == "loss" || prediction.empty()) continue;
    const LossOptions& loss = options_.losses[measure.loss];
    const Field& field = field_named(loader_.fields(), loss.target);
    Shape shape = field.shape;
    shape.insert(shape.begin(), prediction[0]);
    Tensor logits(DType::f32, prediction), target(field.dtype, shape);
    std::ranges::fill(logits.mutable_values<float>(), 0.0f);
    std::memset(target.mutable_raw(), 0, static_cast<std::size_t>(target.bytes()));
    try {
      make_metric(measure.name, loss.ignore_index)->add(logits, target);
    } catch (Error& error) {
      error.add_context("train.metric '" + measure.description + "'");
      throw;
    }
  }
}

}  // namespace tessera::train
