// Product of int8 and uint8 matrices with exact 32-bit sums, for MatMulInteger and QLinearMatMul: sum over k of (a(i,
// k) - a_zero(i)) (b(k, j) - b_zero(j)), modulo 2^32.
//
// Internally A is unsigned and B signed, as VNNI's dot products require: a signed A is shifted by +128 with its zero
// point, an unsigned B by -128. Zero points are then taken out of the plain sums by means of the sums of A's rows and
// B's columns.
#pragma once

#include <cstdint>
#include <span>

#include "backends/backend.h"

namespace tessera::backends::cpu {

struct S8Shape {
  std::int64_t m = 0, n = 0, k = 0;
};

// A row-major matrix of uint8 or int8 elements with one zero point, or one per row (of A) or per column (of B).
struct S8Operand {
  const void* data = nullptr;
  bool is_signed = false;
  const void* zero_points = nullptr;  // of the same type; null: zero
  std::int64_t zero_point_count = 0;
};

// The output of the sums: unchanged, or as saturate(round(sum * factor) + zero_point).
struct S8Output {
  std::int32_t* sums = nullptr;
  void* quantised = nullptr;
  bool is_signed = false;
  std::span<const float> factors;  // one, or one per column
  std::int32_t zero_point = 0;
};

std::int64_t gemm_s8_right_bytes(std::int64_t k, std::int64_t n);
std::int64_t gemm_s8_left_bytes(std::int64_t m, std::int64_t k);
// Packs the elements (without their zero points) and the sums of B's columns.
void gemm_s8_pack_right(const S8Operand& right, std::int64_t k, std::int64_t n, std::byte* to);

// `packed_right` was written by gemm_s8_pack_right; `scratch` has gemm_s8_left_bytes.
void gemm_s8(const KernelContext& context, const S8Shape& shape, const S8Operand& left, const S8Operand& right,
             const std::byte* packed_right, std::byte* scratch, const S8Output& output);

// Bytes from row to row of the left operand of gemm_s8_serial; bytes of a row beyond k are zero.
std::int64_t gemm_s8_left_stride(std::int64_t k);
// Whether a zero point of the operand changes sums: not if it is the middle of the type's range.
bool gemm_s8_has_zeros(const S8Operand& right);
// Computes the plain sums of few rows on the calling thread, without memory of its own: for products within a parallel
// loop. `left` holds unsigned bytes with one zero point. `right.data` is not read, and its zero points are read only if
// gemm_s8_has_zeros says so.
void gemm_s8_serial(const S8Shape& shape, const std::uint8_t* left, std::uint8_t left_zero, const S8Operand& right,
                    bool has_zeros, const std::byte* packed_right, std::int32_t* sums);

}  // namespace tessera::backends::cpu
