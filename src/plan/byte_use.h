// Which bytes a step of a plan reads and writes: what decides whether two steps may be under way at once.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace tessera::plan {

// A range of bytes of the arena of a memory space, or of the value of a slot outside of it.
struct ByteUse {
  std::int32_t of = 0;  // a slot that is no alias, or kHostArena or kDeviceArena
  std::int64_t begin = 0, end = 0;
  bool writes = false;
};
inline constexpr std::int32_t kHostArena = -1, kDeviceArena = -2;

// The operands and the scratch memory of the step, without ranges of no bytes; none for an alias step, which touches no
// bytes. An update that is written over its variable counts as the variable. A value whose size the plan does not know
// has all the bytes there can be. Expects that slots have their places in the arenas.
std::vector<ByteUse> uses_of(const Plan& plan, const Step& step);

// Returns whether one of them writes bytes that the other one uses.
bool conflict(const std::vector<ByteUse>& a, const std::vector<ByteUse>& b);

}  // namespace tessera::plan
