// The arguments of the kernels of typed.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kTypedThreads = 256, kTypedAxes = 6, kTypedInputs = 3;

enum class StoredType : int { f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

struct CastParameters {
  const void* x;
  void* y;
  std::int64_t count;
  StoredType from, to;
};

enum class TypedOperation : int {
  equal,  // these give bools
  less,
  less_or_equal,
  greater,
  greater_or_equal,
  not_a_number,  // of the first operand
  both,          // of bools
  either,
  different,
  inverse,
  add,  // of integers, which wrap
  subtract,
  multiply,
  minimum,
  maximum,
  choose,  // input 1 where input 0, a bool, is true, else input 2
};

// The output is dense; inputs are read by strides in elements, 0 along axes that they are broadcast over. Axes are
// ordered from the outermost; unused ones have size 1.
struct TypedParameters {
  const void* inputs[kTypedInputs];
  void* output;
  std::int64_t sizes[kTypedAxes], strides[kTypedInputs][kTypedAxes];
  std::int64_t count;
  TypedOperation operation;
};

}  // namespace tessera::cuda
