#include "train/evaluation/class_balance.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "train/evaluation/labelled_predictions.h"

namespace tessera::train {
namespace {

// Calls use(sample, numbers of the field) for each sample that can be read.
template <typename Use>
void for_each_target(const Dataset& data, const std::string& name, Use use) {
  const Field& field = field_named(data.fields(), name);
  const auto place = static_cast<std::size_t>(&field - data.fields().data());
  Tensor target(field.dtype, field.shape);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    try {
      data.read_field(i, place, static_cast<std::byte*>(target.mutable_raw()));
    } catch (const Error&) {
      continue;  // the loader reports it
    }
    use(i, numbers_of(target));
  }
}

std::int64_t whole_label(const Dataset& data, std::int64_t sample, double label) {
  require(label >= 0 && label == std::floor(label) && label < 1e9, ErrorKind::invalid_argument,
          "{}: the label {} is no class, a whole number of at least 0", data.describe(sample), label);
  return static_cast<std::int64_t>(label);
}

void require_one_number(const Dataset& data, const std::string& field, const char* purpose) {
  const Shape& shape = field_named(data.fields(), field).shape;
  require(element_count(shape) == 1, ErrorKind::invalid_argument,
          "{} needs one number for each sample, but '{}' has the shape {} in a sample", purpose, field,
          to_string(shape));
}

}  // namespace

std::vector<double> balanced_class_weights(const Dataset& data, const std::string& field, std::int64_t ignore_index) {
  std::vector<double> counts;
  double labels = 0;
  for_each_target(data, field, [&](std::int64_t sample, const std::vector<double>& targets) {
    for (const double target : targets) {
      if (target == static_cast<double>(ignore_index)) continue;
      const auto label = static_cast<std::size_t>(whole_label(data, sample, target));
      if (label >= counts.size()) counts.resize(label + 1);
      ++counts[label];
      ++labels;
    }
  });
  require(labels > 0, ErrorKind::invalid_argument, "the field '{}' of the training data has no label to balance",
          field);
  const auto classes = static_cast<double>(std::ranges::count_if(counts, [](double count) { return count > 0; }));
  for (double& count : counts) count = count > 0 ? labels / (classes * count) : 1;
  return counts;
}

std::vector<double> balanced_pos_weight(const Dataset& data, const std::string& field) {
  const Shape& shape = field_named(data.fields(), field).shape;
  const std::size_t positions = shape.empty() ? 1 : static_cast<std::size_t>(shape[0]);
  std::vector<double> positive(positions), all(positions);
  for_each_target(data, field, [&](std::int64_t, const std::vector<double>& targets) {
    const std::size_t inner = std::max<std::size_t>(1, targets.size() / std::max<std::size_t>(1, positions));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      ++all[i / inner];
      positive[i / inner] += targets[i] > 0.5 ? 1 : 0;
    }
  });
  for (std::size_t i = 0; i < positions; ++i) {
    require(positive[i] > 0, ErrorKind::invalid_argument,
            "pos_weight cannot be balanced: at position {} of '{}' no target of the training data is positive", i,
            field);
    positive[i] = (all[i] - positive[i]) / positive[i];
  }
  return positive;
}

std::vector<double> balanced_sample_weights(const Dataset& data, const std::string& field, std::int64_t ignore_index) {
  require_one_number(data, field, "data.sampling = \"balanced\"");
  constexpr std::int64_t kNone = -1;
  std::vector<std::int64_t> labels(static_cast<std::size_t>(data.size()), kNone);
  std::map<std::int64_t, double> counts;
  for_each_target(data, field, [&](std::int64_t sample, const std::vector<double>& targets) {
    if (targets[0] == static_cast<double>(ignore_index)) return;
    const std::int64_t label = whole_label(data, sample, targets[0]);
    labels[static_cast<std::size_t>(sample)] = label;
    ++counts[label];
  });
  require(!counts.empty(), ErrorKind::invalid_argument, "the field '{}' of the training data has no label to balance",
          field);
  std::vector<double> weights;
  weights.reserve(labels.size());
  for (const std::int64_t label : labels) weights.push_back(label == kNone ? 0 : 1 / counts[label]);
  return weights;
}

std::vector<double> sample_weights(const Dataset& data, const std::string& field) {
  require_one_number(data, field, "data.sampling = \"weighted\"");
  std::vector<double> weights(static_cast<std::size_t>(data.size()));
  double sum = 0;
  for_each_target(data, field, [&](std::int64_t sample, const std::vector<double>& targets) {
    require(targets[0] >= 0 && std::isfinite(targets[0]), ErrorKind::invalid_argument,
            "{}: the weight '{}' is {}, expected a number of at least 0", data.describe(sample), field, targets[0]);
    sum += weights[static_cast<std::size_t>(sample)] = targets[0];
  });
  require(sum > 0, ErrorKind::invalid_argument, "all weights '{}' of the training data are 0", field);
  return weights;
}

}  // namespace tessera::train
