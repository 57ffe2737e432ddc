// Places buffers with known lifetimes in one arena.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::plan {

// A buffer that is needed from step `first` to step `last`, both included.
struct BufferRequest {
  std::int64_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // one per request, multiples of kArenaAlignment
  std::int64_t arena_bytes = 0;
  std::int64_t largest_live_bytes = 0;  // most bytes live at any one step, a lower bound for every arena
};

inline constexpr std::int64_t kArenaAlignment = 64;

// Tries several orders of placement and keeps the smallest arena. Buffers whose lifetimes overlap never overlap in
// space. Throws Error(over_budget) when the sum of sizes overflows.
MemoryPlan plan_memory(const std::vector<BufferRequest>& requests);

}  // namespace tessera::plan
