#include "train/net/magnitude_mask.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tessera::train {
namespace {

struct Place {
  float magnitude;
  std::uint32_t tensor;
  std::int64_t element;
};

bool is_smaller(const Place& a, const Place& b) {
  if (a.magnitude != b.magnitude) return a.magnitude < b.magnitude;
  // Among equal magnitudes, later weights are removed first.
  return a.tensor != b.tensor ? a.tensor > b.tensor : a.element > b.element;
}

// NaN counts as the largest magnitude and is kept, so that the training finds it.
float magnitude_of(float value) {
  return std::isnan(value) ? HUGE_VALF : std::abs(value);
}

Tensor all_true(const Shape& shape) {
  Tensor mask(DType::boolean, shape);
  std::ranges::fill(mask.mutable_values<bool>(), true);
  return mask;
}

}  // namespace

std::optional<KeptOfGroup> parse_structure(const std::string& structure) {
  if (structure == "none") return std::nullopt;
  KeptOfGroup parsed;
  const char *begin = structure.data(), *end = begin + structure.size();
  const auto first = std::from_chars(begin, end, parsed.kept);
  const bool has_colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  const auto second = has_colon ? std::from_chars(first.ptr + 1, end, parsed.group) : first;
  require(has_colon && second.ec == std::errc() && second.ptr == end && parsed.kept > 0 && parsed.kept < parsed.group &&
              parsed.group <= 64,
          ErrorKind::invalid_argument,
          "the structure is '{}', expected 'none' or 'N:M' with 0 < N < M <= 64, such as '2:4'", structure);
  return parsed;
}

std::vector<Tensor> global_magnitude_masks(const std::vector<Tensor>& weights, double sparsity) {
  std::vector<Place> places;
  std::vector<Tensor> masks;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    masks.push_back(all_true(weights[i].shape()));
    const auto values = weights[i].values<float>();
    for (std::size_t k = 0; k < values.size(); ++k)
      places.push_back({magnitude_of(values[k]), static_cast<std::uint32_t>(i), static_cast<std::int64_t>(k)});
  }
  const auto zeros = static_cast<std::ptrdiff_t>(std::llround(sparsity * static_cast<double>(places.size())));
  if (zeros <= 0) return masks;
  std::nth_element(places.begin(), places.begin() + (zeros - 1), places.end(), is_smaller);
  for (auto place = places.begin(); place != places.begin() + zeros; ++place)
    masks[place->tensor].mutable_data<bool>()[place->element] = false;
  return masks;
}

Tensor magnitude_mask(const Tensor& weights, double sparsity) {
  return global_magnitude_masks({weights}, sparsity)[0];
}

Tensor group_mask(const Tensor& weights, KeptOfGroup structure, std::int64_t axis) {
  const Shape& shape = weights.shape();
  const auto at = static_cast<std::size_t>(axis);
  require(at < shape.size() && shape[at] % structure.group == 0, ErrorKind::invalid_argument,
          "weights {} cannot be divided into groups of {} along axis {}", to_string(shape), structure.group, axis);
  Tensor mask = all_true(shape);
  const std::int64_t inner =
      std::accumulate(shape.begin() + axis + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t slab = shape[at] * inner;
  const float* from = weights.data<float>();
  bool* to = mask.mutable_data<bool>();
  std::vector<Place> group(static_cast<std::size_t>(structure.group));
  for (std::int64_t begin = 0; begin < weights.elements(); begin += structure.group) {
    // The number of the group, which encodes outer index, group along the axis and inner index.
    const std::int64_t number = begin / structure.group, groups = shape[at] / structure.group;
    const std::int64_t outer = number / (groups * inner), in_slab = number % (groups * inner);
    const std::int64_t first = outer * slab + in_slab / inner * structure.group * inner + in_slab % inner;
    for (std::int64_t k = 0; k < structure.group; ++k)
      group[static_cast<std::size_t>(k)] = {magnitude_of(from[first + k * inner]), 0, first + k * inner};
    std::ranges::sort(group, is_smaller);
    for (std::int64_t k = 0; k < structure.group - structure.kept; ++k)
      to[group[static_cast<std::size_t>(k)].element] = false;
  }
  return mask;
}

Tensor masked(const Tensor& weights, const Tensor& mask) {
  Tensor result = weights.clone();
  const auto keeps = mask.values<bool>();
  const auto values = result.mutable_values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!keeps[i]) values[i] = 0;
  }
  return result;
}

double sparsity_of(const Tensor& weights) {
  if (weights.elements() == 0) return 0;
  return static_cast<double>(std::ranges::count(weights.values<float>(), 0.0f)) /
         static_cast<double>(weights.elements());
}

}  // namespace tessera::train
