#include "train/evaluation.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
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

using Fields = std::map<std::string, Tensor>;

// Copies of these rows, one behind the other.
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
  return metric != "loss" && larger_is_better(metric) ? value > other : value < other;
}

Evaluator::Evaluator(const Model& graph, Binding binding, std::shared_ptr<const Dataset> data, TransformList transforms,
                     const EvaluatorOptions& options)
    : options_(options),
      binding_(std::move(binding)),
      prediction_(graph.outputs()[0].name),
      session_(graph, options.session),
      loader_(data, std::move(transforms), in_order(options, data->size())) {
  if (options_.metric != "loss") make_metric(options_.metric);  // throws for one that is unknown
}

EvaluationReport Evaluator::run(const std::map<std::string, Tensor>& weights, const Cancellation* cancellation) {
  for (const auto& [name, value] : weights) session_.set_variable(name, value);
  const std::unique_ptr<Metric> metric =
      options_.metric == "loss" ? nullptr : make_metric(options_.metric, options_.loss.ignore_index);
  loader_.seek({});
  RunOptions how{.seed = 0};  // so that two evaluations of the same weights agree
  how.cancellation = cancellation;
  Sums sums;
  for (bool ends = false; !ends;) {
    const Batch batch = loader_.next();
    ends = batch.ends_epoch;
    if (batch.samples > 0) test(batch, metric.get(), how, sums);
  }
  EvaluationReport report;
  report.metric = options_.metric;
  report.loss = sums.weight > 0 ? sums.loss / sums.weight : 0;
  report.value = metric ? metric->value() : report.loss;
  report.samples = sums.samples;
  const LoaderReport read = loader_.report();
  report.skipped_samples = read.skipped;
  report.skipped_reasons = read.reasons;
  return report;
}

void Evaluator::test(const Batch& batch, Metric* metric, const RunOptions& how, Sums& sums) {
  if (options_.target) check_target(batch, binding_.target, *options_.target, loader_);
  const auto run = [&](const Fields& fields, double share) {
    const std::vector<Value> outputs = session_.run(inputs_of(binding_, fields), {prediction_, "loss"}, how);
    const Tensor& target = fields.at(binding_.target);
    const double count = share * counted(target, options_.loss, target.shape()[0]);
    sums.loss += count * static_cast<double>(outputs[1].tensor().data<float>()[0]);
    sums.weight += count;
    return outputs[0].tensor();
  };
  sums.samples += batch.samples;
  const std::int64_t filling = options_.whole_batches ? options_.batch - batch.samples : 0;
  if (filling == 0) {
    const Tensor prediction = run(batch.fields, 1);
    if (metric != nullptr) metric->add(prediction, batch.fields.at(binding_.target));
    return;
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(options_.batch), 0);
  const Fields copies = rows_of(batch.fields, rows);
  std::iota(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(batch.samples), std::int64_t{0});
  const Tensor prediction = run(rows_of(batch.fields, rows), 1);
  run(copies, -static_cast<double>(filling) / static_cast<double>(options_.batch));
  if (metric == nullptr) return;
  require(prediction.rank() > 0 && prediction.shape()[0] == options_.batch, ErrorKind::unsupported,
          "the prediction {} has not the batch of {} in front, and {} samples are too few for a batch: they cannot be "
          "tested",
          to_string(prediction.shape()), options_.batch, batch.samples);
  std::vector<std::int64_t> first(static_cast<std::size_t>(batch.samples));
  std::iota(first.begin(), first.end(), std::int64_t{0});
  metric->add(row_copies(prediction, first), batch.fields.at(binding_.target));
}

void Evaluator::check_metric(const Shape& prediction) const {
  if (options_.metric == "loss") return;
  const auto field = std::ranges::find(loader_.fields(), binding_.target, &Field::name);
  Shape shape = field->shape;
  shape.insert(shape.begin(), prediction.empty() ? 1 : prediction[0]);
  Tensor logits(DType::f32, prediction), target(field->dtype, shape);
  std::ranges::fill(logits.mutable_values<float>(), 0.0f);
  std::memset(target.mutable_raw(), 0, static_cast<std::size_t>(target.bytes()));
  try {
    make_metric(options_.metric, options_.loss.ignore_index)->add(logits, target);
  } catch (Error& error) {
    error.add_context("train.metric '" + options_.metric + "'");
    throw;
  }
}

}  // namespace tessera::train
