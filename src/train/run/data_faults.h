// Faults in the numbers of a batch, named by the samples that have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/graph.h"
#include "tessera/train.h"
#include "train/data/loader.h"
#include "train/run/binding.h"

namespace tessera::train {

// What the target's elements may be: whole numbers from 0 to `classes` − 1 and `ignore_index`, or, without classes,
// numbers in [0, 1].
struct TargetRange {
  std::optional<std::int64_t> classes;
  std::int64_t ignore_index = -100;
};

// The range of a loss's target beside the net's prediction; nothing where any number will do or the number of classes
// is not known. `shape` is that of the target in a sample.
std::optional<TargetRange> target_range(const ir::Graph& model, const LossOptions& loss, const Shape& shape);

// Throws Error(invalid_argument) for the first element of the target that is out of range, naming its sample.
void check_target(const Batch& batch, const std::string& target, const TargetRange& range, const Loader& loader);

// The first number of the fields that feed the net or its loss that is not finite, such as "input 'x' is nan at [3] in
// table.csv line 7"; empty where all are finite.
std::string first_not_finite(const Batch& batch, const Binding& binding, const Loader& loader);

}  // namespace tessera::train
