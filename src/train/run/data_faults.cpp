#include "train/run/data_faults.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "train/net/losses.h"

namespace tessera::train {
namespace {

// The first element for which is_wrong holds, if there is one.
template <typename T, typename IsWrong>
std::optional<std::int64_t> first_wrong(const Tensor& tensor, IsWrong is_wrong) {
  const std::span<const T> values = tensor.values<T>();
  const auto found = std::ranges::find_if(values, is_wrong);
  if (found == values.end()) return std::nullopt;
  return found - values.begin();
}

// The sample that an element of a batch belongs to, and the element's index within the sample, "" if that has a single
// one.
struct Place {
  std::string sample, element;
};

Place place_of(const Batch& batch, const Tensor& tensor, std::int64_t at, const Loader& loader) {
  const std::int64_t each = std::max<std::int64_t>(1, tensor.elements() / std::max<std::int64_t>(1, batch.samples));
  Place place{loader.describe(batch.indices[static_cast<std::size_t>(at / each)]), ""};
  std::int64_t rest = at % each;
  for (std::size_t i = tensor.shape().size(); i-- > 1;) {
    const std::int64_t size = tensor.shape()[i];
    place.element = std::to_string(rest % size) + (place.element.empty() ? "" : ", ") + place.element;
    rest /= size;
  }
  if (!place.element.empty()) place.element = " at [" + place.element + "]";
  return place;
}

// The axis of the classes: 1, or the last one if the labels have the shape of all other axes.
std::size_t class_axis(const ir::Dims& prediction, const Shape& labels, const LossOptions& loss) {
  if (loss.class_axis != 0) return loss.class_axis < 0 ? prediction.size() - 1 : 1;
  bool fits = prediction.size() == labels.size() + 2;
  for (std::size_t i = 0; fits && i < labels.size(); ++i) fits = prediction[i + 2].may_equal(labels[i]);
  return fits ? 1 : prediction.size() - 1;
}

}  // namespace

std::optional<TargetRange> target_range(const ir::Graph& model, const LossOptions& loss, const Shape& shape) {
  const TargetKind kind = target_kind(loss.name);
  if (kind == TargetKind::probabilities) return TargetRange{};
  const ir::ValueInfo* prediction = prediction_of(model, loss);
  if (kind != TargetKind::labels || prediction == nullptr || !prediction->type.dims) return std::nullopt;
  const ir::Dims& dims = *prediction->type.dims;
  if (dims.size() < 2) return std::nullopt;
  const ir::Dim& classes = loss.name == "ctc" ? dims.back() : dims[class_axis(dims, shape, loss)];
  if (!classes.is_known()) return std::nullopt;
  // The single class of a binary dice loss has the labels 0 and 1.
  return TargetRange{std::max<std::int64_t>(2, classes.value()), loss.ignore_index};
}

void check_target(const Batch& batch, const std::string& target, const TargetRange& range, const Loader& loader) {
  const Tensor& values = batch.fields.at(target);
  if (!range.classes) {
    if (values.dtype() != DType::f32) return;
    // NaN is reported by the check of the step.
    const auto wrong = first_wrong<float>(values, [](float value) { return value < 0 || value > 1; });
    if (!wrong) return;
    const Place place = place_of(batch, values, *wrong, loader);
    fail(ErrorKind::invalid_argument, "the target '{}' is {}{} in {}; the loss expects numbers from 0 to 1", target,
         values.data<float>()[*wrong], place.element, place.sample);
  }
  const auto is_wrong = [&](auto value) {
    const auto label = static_cast<std::int64_t>(value);
    return (label < 0 || label >= *range.classes) && label != range.ignore_index;
  };
  std::optional<std::int64_t> wrong;
  std::int64_t label = 0;
  if (values.dtype() == DType::i64) {
    wrong = first_wrong<std::int64_t>(values, is_wrong);
    if (wrong) label = values.data<std::int64_t>()[*wrong];
  } else if (values.dtype() == DType::i32) {
    wrong = first_wrong<std::int32_t>(values, is_wrong);
    if (wrong) label = values.data<std::int32_t>()[*wrong];
  }
  if (!wrong) return;
  const Place place = place_of(batch, values, *wrong, loader);
  fail(ErrorKind::invalid_argument,
       "the label {}{} in {} is no class: the net tells {} apart, numbered from 0, and loss.ignore_index is {}", label,
       place.element, place.sample, *range.classes, range.ignore_index);
}

std::string first_not_finite(const Batch& batch, const Binding& binding, const Loader& loader) {
  const auto fault_of = [&](const std::string& name, const std::string& field) -> std::string {
    const Tensor& values = batch.fields.at(field);
    if (values.dtype() != DType::f32) return "";
    const auto wrong = first_wrong<float>(values, [](float value) { return !std::isfinite(value); });
    if (!wrong) return "";
    const Place place = place_of(batch, values, *wrong, loader);
    return fmt::format("{} is {}{} in {}", name, std::isnan(values.data<float>()[*wrong]) ? "nan" : "infinite",
                       place.element, place.sample);
  };
  for (const auto& [input, field] : binding.fields) {
    std::string fault = fault_of(fmt::format("input '{}'", input), field);
    if (!fault.empty()) return fault;
  }
  for (const std::string& target : binding.targets) {
    std::string fault = fault_of(fmt::format("the target '{}'", target), target);
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace tessera::train
