#include "backends/cpu/element_wise/rounding_bf16.h"

#include "backends/cpu/machine/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/rounding_bf16.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/element_wise/vector_bf16.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

void round_row_to_bf16(const float* x, std::uint16_t* y, std::int64_t count) {
  bf16::round_row(x, y, count);
}
void round_pairs_to_bf16(const float* even, const float* odd, std::uint16_t* y, std::int64_t count) {
  bf16::round_pairs(even, odd, y, count);
}
void widen_row_of_bf16(const std::uint16_t* x, float* y, std::int64_t count) {
  bf16::widen_row(x, y, count);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(round_row_to_bf16);
HWY_EXPORT(round_pairs_to_bf16);
HWY_EXPORT(widen_row_of_bf16);

void to_bf16_row(const float* x, std::uint16_t* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(round_row_to_bf16)(x, y, count);
}

void to_bf16_pairs(const float* even, const float* odd, std::uint16_t* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(round_pairs_to_bf16)(even, odd, y, count);
}

void round_to_bf16_row(const float* x, std::uint16_t* y, std::int64_t count) {
#if defined(__x86_64__)
  if (active_bf16()) return round_to_bf16_row_avx512bf16(x, y, count);
#endif
  to_bf16_row(x, y, count);
}

bool round_pictures([[maybe_unused]] const float* x, [[maybe_unused]] std::uint16_t* y,
                    [[maybe_unused]] std::int64_t pixels) {
#if defined(__x86_64__)
  if (active_bf16()) {
    round_pictures_avx512bf16(x, y, pixels);
    return true;
  }
#endif
  return false;
}

void from_bf16_row(const std::uint16_t* x, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(widen_row_of_bf16)(x, y, count);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
