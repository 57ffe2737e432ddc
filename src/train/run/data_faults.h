// Finds invalid numbers in a batch, and names the samples that have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/graph.h"
#include "tessera/train.h"
#include "train/data/loader.h"
#include "train/run/binding.h"

namespace tessera::train {

// The valid range of a target's elements: whole numbers from 0 to `classes` − 1 and `ignore_index`; or, without
// `classes`, numbers in [0, 1].
struct TargetRange {
  std::optional<std::int64_t> classes;
  std::int64_t ignore_index = -100;
};

// The range of a loss's target, given the net's prediction; nothing if any number is valid or the number of classes is
// not known. `shape` is that of the target in a sample.
std::optional<TargetRange> target_range(const ir::Graph& model, const LossOptions& loss, const Shape& shape);

// Throws Error(invalid_argument), which names the sample, for the first element of the target that is out of range.
void check_target(const Batch& batch, const std::string& target, const TargetRange& range, const Loader& loader);

// Describes the first number that is not finite in the fields that feed the net or its loss, such as "input 'x' is nan
// at [3] in table.csv line 7"; empty if all are finite.
std::string first_not_finite(const Batch& batch, const Binding& binding, const Loader& loader);

}  // namespace tessera::train
