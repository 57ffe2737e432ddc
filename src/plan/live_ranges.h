// Finds the bytes of a plan's arena that hold values that later steps read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace tessera::plan {

struct ByteRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

// The ranges of the host's arena whose contents a run still needs when `step` is the next to begin: values of earlier
// steps that this step or a later one reads, or that are outputs or updates of variables. The ranges are in ascending
// order and disjoint. The rest of the arena may lose its contents at that point.
std::vector<ByteRange> live_ranges(const Plan& plan, std::size_t step);

}  // namespace tessera::plan
