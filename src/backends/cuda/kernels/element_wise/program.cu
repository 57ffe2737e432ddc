// The interpreter of element-wise programs. Registers of the program stand in shared memory, one column per thread,
// since they are addressed by number.
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: element_program_f32 registers 64 shared 16384 instruction MUFU
// Gate: element_program_f16 registers 64 shared 16384 instruction MUFU
// Gate: element_program_bf16 registers 64 shared 16384 instruction MUFU
#include <math.h>

#include "backends/cuda/kernels/element_wise/program.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

struct Registers {
  float values[kProgramRegisters][kThreads];
};

__device__ __forceinline__ float combine(ElementOperation operation, float a, float b, float c) {
  switch (operation) {
    case ElementOperation::add:
      return a + b;
    case ElementOperation::subtract:
      return a - b;
    case ElementOperation::multiply:
      return a * b;
    case ElementOperation::divide:
      return a / b;
    case ElementOperation::minimum:
      return a < b || a != a ? a : b;  // not-a-number wins
    case ElementOperation::maximum:
      return a > b || a != a ? a : b;
    case ElementOperation::power:
      return powf(a, b);
    case ElementOperation::less:
      return a < b ? 1.0f : 0.0f;
    case ElementOperation::equal:
      return a == b ? 1.0f : 0.0f;
    case ElementOperation::select:
      return c != 0.0f ? a : b;
    case ElementOperation::negate:
      return -a;
    case ElementOperation::absolute:
      return fabsf(a);
    case ElementOperation::reciprocal:
      return 1.0f / a;
    case ElementOperation::square_root:
      return sqrtf(a);
    case ElementOperation::exponential:
      return expf(a);
    case ElementOperation::logarithm:
      return logf(a);
    case ElementOperation::error_function:
      return erff(a);
    case ElementOperation::sigmoid:
      return 1.0f / (1.0f + expf(-a));
    case ElementOperation::tanh:
      return tanhf(a);
    case ElementOperation::relu:
      return a > 0.0f || a != a ? a : 0.0f;
    case ElementOperation::floor:
      return floorf(a);
    case ElementOperation::round:
      return rintf(a);  // ties to even
    case ElementOperation::ceil:
      return ceilf(a);
    case ElementOperation::sine:
      return sinf(a);
    case ElementOperation::cosine:
      return cosf(a);
    case ElementOperation::load:
    case ElementOperation::constant:
      break;
  }
  return 0.0f;
}

template <class T>
__device__ __forceinline__ float load_input(const ElementProgram& p, int input, std::int64_t element) {
  std::int64_t at = 0;
#pragma unroll
  for (int axis = kProgramAxes - 1; axis >= 0; --axis) {
    at += element % p.sizes[axis] * p.strides[input][axis];
    element /= p.sizes[axis];
  }
  return to_float(static_cast<const T*>(p.inputs[input])[at]);
}

template <class T>
__device__ __forceinline__ void run_program(const ElementProgram& p) {
  auto& registers = static_shared<Registers>().values;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kThreads + thread; element < p.count;
       element += step) {
#pragma unroll 1
    for (int i = 0; i < p.length; ++i) {
      const ElementInstruction& now = p.instructions[i];
      float value = now.value;
      if (now.operation == ElementOperation::load) {
        value = load_input<T>(p, now.a, element);
      } else if (now.operation != ElementOperation::constant) {
        value = combine(now.operation, registers[now.a][thread], registers[now.b][thread], registers[now.c][thread]);
      }
      registers[now.result][thread] = value;
    }
    static_cast<T*>(p.output)[element] = from_float<T>(registers[0][thread]);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) element_program_f32(const __grid_constant__ ElementProgram p) {
  run_program<float>(p);
}
extern "C" __global__ void __launch_bounds__(kThreads) element_program_f16(const __grid_constant__ ElementProgram p) {
  run_program<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kThreads) element_program_bf16(const __grid_constant__ ElementProgram p) {
  run_program<Bfloat16>(p);
}

}  // namespace tessera::cuda
