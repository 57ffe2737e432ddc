// The rotation of a head by its position, compiled for each instruction set.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// Turns `pairs` pairs of a head: element i with i + pairs, or neighbours.
struct RotaryFunctions {
  void (*halves)(const float* x, const float* cosines, const float* sines, std::int64_t pairs, float* y);
  void (*neighbours)(const float* x, const float* cosines, const float* sines, std::int64_t pairs, float* y);
};

// Returns the functions of the active instruction set.
const RotaryFunctions& active_rotary_functions();

}  // namespace tessera::backends::cpu
