#include "compress/core/label_kind.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "train/data/element_conversion.h"

namespace tessera::compress {
namespace {

std::vector<double> numbers_of(const Tensor& labels) {
  if (!train::is_convertible(labels.dtype())) return {};  // the metric itself names types that it does not take
  const Tensor numbers = train::converted_tensor(labels, DType::f64, false, "the labels");
  const std::span<const double> values = numbers.values<double>();
  return {values.begin(), values.end()};
}

Shape without_axis(Shape shape, std::size_t axis) {
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return shape;
}

Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

// Why these labels are not one number for each score, as metrics of numbers need them; "" if they are.
std::string reason_against_numbers(const Tensor& scores, const Tensor& labels) {
  if (without_ones(scores.shape()) == without_ones(labels.shape())) return "";
  return fmt::format("the labels are {} and the scores {}", to_string(labels.shape()), to_string(scores.shape()));
}

// Why these labels are no classes of the scores; "" if they are.
std::string reason_against(const Tensor& scores, const Tensor& labels, std::optional<std::size_t>& axis) {
  constexpr double kIgnored = -100;
  double most = 1;  // for scores that each stand for a class that is present or not
  axis.reset();
  const std::size_t rank = scores.shape().size();
  if (scores.elements() != labels.elements()) {
    for (const std::size_t each : {std::size_t{1}, rank - 1}) {
      if (rank < 2 || axis || without_axis(scores.shape(), each) != labels.shape()) continue;
      axis = each;
      most = static_cast<double>(scores.shape()[each] - 1);
    }
    if (!axis)
      return fmt::format("the labels are {} and the scores {}", to_string(labels.shape()), to_string(scores.shape()));
  }
  for (const double number : numbers_of(labels)) {
    const bool fits = number == std::floor(number) && ((number >= 0 && number <= most) || number == kIgnored);
    if (!fits) return fmt::format("one of the labels is {}, expected a whole number from 0 to {}", number, most);
  }
  return "";
}

}  // namespace

LabelKind kind_of_labels(const Model& model, const CalibrationData& data, const SessionOptions& session) {
  constexpr std::int64_t kMostSamples = 4096;
  LabelKind kind;
  std::int64_t samples = 0;
  std::optional<Tensor> scores;
  Session run(model, session);
  read_samples(model, data, [&](const SampleBatch& batch) {
    kind.any = batch.labels.has_value();
    if (!kind.any) return false;
    if (!scores || scores->shape()[0] != batch.labels.shape()[0]) {  // the last batch may be smaller
      const NamedValues outputs = run.run(batch.inputs);
      const Tensor* found = scores_of(model, outputs);
      kind.against = kind.against_numbers = found == nullptr ? "the model has no scores (f32)" : "";
      if (found == nullptr) return false;
      scores = *found;
    }
    kind.against = reason_against(*scores, batch.labels, kind.class_axis);
    kind.against_numbers = reason_against_numbers(*scores, batch.labels);
    samples += batch.samples;
    return kind.against.empty() && samples < kMostSamples;
  });
  kind.classes = kind.any && kind.against.empty();
  return kind;
}

const Tensor* scores_of(const Model& model, const NamedValues& outputs) {
  for (const ValueDescription& output : model.outputs()) {
    const Value& value = outputs.at(output.name);
    if (value.is_tensor() && value.tensor().dtype() == DType::f32 && value.tensor().rank() > 0) return &value.tensor();
  }
  return nullptr;
}

}  // namespace tessera::compress
