// Architectures: 75 80 86 89 90a 100 120
// Gate: convert_elements registers 64 shared 0 instruction STG
// Gate: compare_f32 registers 64 shared 0 instruction STG
// Gate: compare_f16 registers 64 shared 0 instruction STG
// Gate: compare_bf16 registers 64 shared 0 instruction STG
// Gate: compare_i32 registers 64 shared 0 instruction STG
// Gate: compare_i64 registers 64 shared 0 instruction STG
// Gate: logic_8 registers 64 shared 0 instruction STG
// Gate: integer_i32 registers 64 shared 0 instruction STG
// Gate: integer_i64 registers 64 shared 0 instruction STG
// Gate: choose_8 registers 64 shared 0 instruction STG
// Gate: choose_16 registers 64 shared 0 instruction STG
// Gate: choose_32 registers 64 shared 0 instruction STG
// Gate: choose_64 registers 64 shared 0 instruction STG
#include "backends/cuda/kernels/element_wise/typed.h"

namespace tessera::cuda {
namespace {

// An element of any type, as a real number or an integer.
struct AnyElement {
  double real;
  std::int64_t integer;
};

template <class T>
__device__ __forceinline__ AnyElement integer_at(const void* x, std::int64_t at) {
  const T value = static_cast<const T*>(x)[at];
  return {static_cast<double>(value), static_cast<std::int64_t>(value)};
}

__device__ __forceinline__ AnyElement real_element(double value) {
  return {value, static_cast<std::int64_t>(value)};
}

__device__ __forceinline__ AnyElement element_at(const void* x, StoredType type, std::int64_t at) {
  switch (type) {
    case StoredType::f32:
      return real_element(static_cast<const float*>(x)[at]);
    case StoredType::f16:
      return real_element(to_float(static_cast<const Float16*>(x)[at]));
    case StoredType::bf16:
      return real_element(to_float(static_cast<const Bfloat16*>(x)[at]));
    case StoredType::f64:
      return real_element(static_cast<const double*>(x)[at]);
    case StoredType::i8:
      return integer_at<std::int8_t>(x, at);
    case StoredType::u8:
    case StoredType::boolean:
      return integer_at<std::uint8_t>(x, at);
    case StoredType::i16:
      return integer_at<std::int16_t>(x, at);
    case StoredType::u16:
      return integer_at<std::uint16_t>(x, at);
    case StoredType::i32:
      return integer_at<std::int32_t>(x, at);
    case StoredType::u32:
      return integer_at<std::uint32_t>(x, at);
    case StoredType::i64:
      return integer_at<std::int64_t>(x, at);
    case StoredType::u64:
      return integer_at<std::uint64_t>(x, at);
  }
  return {};
}

__device__ __forceinline__ void store_element(void* y, StoredType type, std::int64_t at, const AnyElement& value) {
  switch (type) {
    case StoredType::f32:
      static_cast<float*>(y)[at] = static_cast<float>(value.real);
      break;
    case StoredType::f16:
      static_cast<Float16*>(y)[at] = from_float<Float16>(static_cast<float>(value.real));
      break;
    case StoredType::bf16:
      static_cast<Bfloat16*>(y)[at] = from_float<Bfloat16>(static_cast<float>(value.real));
      break;
    case StoredType::f64:
      static_cast<double*>(y)[at] = value.real;
      break;
    case StoredType::i8:
    case StoredType::u8:
      static_cast<std::uint8_t*>(y)[at] = static_cast<std::uint8_t>(value.integer);
      break;
    case StoredType::i16:
    case StoredType::u16:
      static_cast<std::uint16_t*>(y)[at] = static_cast<std::uint16_t>(value.integer);
      break;
    case StoredType::i32:
    case StoredType::u32:
      static_cast<std::uint32_t*>(y)[at] = static_cast<std::uint32_t>(value.integer);
      break;
    case StoredType::i64:
    case StoredType::u64:
      static_cast<std::int64_t*>(y)[at] = value.integer;
      break;
    case StoredType::boolean:
      static_cast<std::uint8_t*>(y)[at] = value.real != 0.0 ? 1 : 0;
      break;
  }
}

__device__ __forceinline__ std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * kTypedThreads + static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ std::int64_t element_step() {
  return static_cast<std::int64_t>(gridDim.x) * kTypedThreads;
}

struct Places {
  std::int64_t at[kTypedInputs];
};

__device__ __forceinline__ Places places_of(const TypedParameters& p, std::int64_t element) {
  Places places{};
#pragma unroll
  for (int axis = kTypedAxes - 1; axis >= 0; --axis) {
    const std::int64_t index = element % p.sizes[axis];
    element /= p.sizes[axis];
#pragma unroll
    for (int i = 0; i < kTypedInputs; ++i) places.at[i] += index * p.strides[i][axis];
  }
  return places;
}

__device__ __forceinline__ float comparable(float value) {
  return value;
}
__device__ __forceinline__ float comparable(Float16 value) {
  return to_float(value);
}
__device__ __forceinline__ float comparable(Bfloat16 value) {
  return to_float(value);
}
__device__ __forceinline__ std::int32_t comparable(std::int32_t value) {
  return value;
}
__device__ __forceinline__ std::int64_t comparable(std::int64_t value) {
  return value;
}

template <class T>
__device__ __forceinline__ void compare(const TypedParameters& p) {
  for (std::int64_t element = first_element(); element < p.count; element += element_step()) {
    const Places places = places_of(p, element);
    const auto a = comparable(static_cast<const T*>(p.inputs[0])[places.at[0]]);
    const auto b = comparable(static_cast<const T*>(p.inputs[1])[places.at[1]]);
    const bool result = p.operation == TypedOperation::equal           ? a == b
                        : p.operation == TypedOperation::less          ? a < b
                        : p.operation == TypedOperation::less_or_equal ? a <= b
                        : p.operation == TypedOperation::greater       ? a > b
                        : p.operation == TypedOperation::not_a_number  ? a != a
                                                                       : a >= b;
    static_cast<std::uint8_t*>(p.output)[element] = result ? 1 : 0;
  }
}

// T: unsigned, so that sums wrap; S: its signed type.
template <class T, class S>
__device__ __forceinline__ T calculate(TypedOperation operation, T a, T b) {
  if (operation == TypedOperation::add) return a + b;
  if (operation == TypedOperation::subtract) return a - b;
  if (operation == TypedOperation::multiply) return a * b;
  const bool a_is_less = static_cast<S>(a) < static_cast<S>(b);
  return a_is_less == (operation == TypedOperation::minimum) ? a : b;
}

template <class T, class S>
__device__ __forceinline__ void calculate_integers(const TypedParameters& p) {
  for (std::int64_t element = first_element(); element < p.count; element += element_step()) {
    const Places places = places_of(p, element);
    static_cast<T*>(p.output)[element] = calculate<T, S>(p.operation, static_cast<const T*>(p.inputs[0])[places.at[0]],
                                                         static_cast<const T*>(p.inputs[1])[places.at[1]]);
  }
}

template <class T>
__device__ __forceinline__ void choose(const TypedParameters& p) {
  for (std::int64_t element = first_element(); element < p.count; element += element_step()) {
    const Places places = places_of(p, element);
    static_cast<T*>(p.output)[element] = static_cast<const std::uint8_t*>(p.inputs[0])[places.at[0]] != 0
                                             ? static_cast<const T*>(p.inputs[1])[places.at[1]]
                                             : static_cast<const T*>(p.inputs[2])[places.at[2]];
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kTypedThreads) convert_elements(CastParameters p) {
  for (std::int64_t element = first_element(); element < p.count; element += element_step())
    store_element(p.y, p.to, element, element_at(p.x, p.from, element));
}

extern "C" __global__ void __launch_bounds__(kTypedThreads) logic_8(const __grid_constant__ TypedParameters p) {
  for (std::int64_t element = first_element(); element < p.count; element += element_step()) {
    const Places places = places_of(p, element);
    const bool a = static_cast<const std::uint8_t*>(p.inputs[0])[places.at[0]] != 0;
    const bool b = static_cast<const std::uint8_t*>(p.inputs[1])[places.at[1]] != 0;
    const bool result = p.operation == TypedOperation::both      ? a && b
                        : p.operation == TypedOperation::either  ? a || b
                        : p.operation == TypedOperation::inverse ? !a
                                                                 : a != b;
    static_cast<std::uint8_t*>(p.output)[element] = result ? 1 : 0;
  }
}

extern "C" __global__ void __launch_bounds__(kTypedThreads) compare_f32(const __grid_constant__ TypedParameters p) {
  compare<float>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) compare_f16(const __grid_constant__ TypedParameters p) {
  compare<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) compare_bf16(const __grid_constant__ TypedParameters p) {
  compare<Bfloat16>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) compare_i32(const __grid_constant__ TypedParameters p) {
  compare<std::int32_t>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) compare_i64(const __grid_constant__ TypedParameters p) {
  compare<std::int64_t>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) integer_i32(const __grid_constant__ TypedParameters p) {
  calculate_integers<std::uint32_t, std::int32_t>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) integer_i64(const __grid_constant__ TypedParameters p) {
  calculate_integers<std::uint64_t, std::int64_t>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) choose_8(const __grid_constant__ TypedParameters p) {
  choose<std::uint8_t>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) choose_16(const __grid_constant__ TypedParameters p) {
  choose<std::uint16_t>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) choose_32(const __grid_constant__ TypedParameters p) {
  choose<std::uint32_t>(p);
}
extern "C" __global__ void __launch_bounds__(kTypedThreads) choose_64(const __grid_constant__ TypedParameters p) {
  choose<std::uint64_t>(p);
}

}  // namespace tessera::cuda
