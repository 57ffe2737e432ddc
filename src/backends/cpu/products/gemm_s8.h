// Product of 8-bit matrices with exact 32-bit sums, for MatMulInteger and QLinearMatMul:
// sum over k of (a(i, k) - a_zero(i)) (b(k, j) - b_zero(j)), modulo 2^32.
//
// Inside, A is unsigned and B signed, as the dot products of VNNI want them: a signed A is shifted by +128 with its
// zero point, an unsigned B by -128. Zero points are then taken out of plain sums by the sums of A's rows and B's
// columns.
#pragma once

#include <cstdint>
#include <span>

#include "backends/backend.h"

namespace tessera::backends::cpu {

struct S8Shape {
  std::int64_t m = 0, n = 0, k = 0;
};

// A row-major matrix of u8 or i8 elements with one zero point, or one a row (of A) or a column (of B).
struct S8Operand {
  const void* data = nullptr;
  bool is_signed = false;
  const void* zero_points = nullptr;  // of the same type; null: zero
  std::int64_t zero_point_count = 0;
};

// Where the sums go: as they are, or as saturate(round(sum * factor) + zero_point).
struct S8Output {
  std::int32_t* sums = nullptr;
  void* quantised = nullptr;
  bool is_signed = false;
  std::span<const float> factors;  // one, or one a column
  std::int32_t zero_point = 0;
};

std::int64_t gemm_s8_right_bytes(std::int64_t k, std::int64_t n);
std::int64_t gemm_s8_left_bytes(std::int64_t m, std::int64_t k);
// Packs the elements (without their zero points) and the sums of B's columns.
void gemm_s8_pack_right(const S8Operand& right, std::int64_t k, std::int64_t n, std::byte* to);

// `packed_right` as gemm_s8_pack_right leaves it; `scratch` has gemm_s8_left_bytes.
void gemm_s8(const KernelContext& context, const S8Shape& shape, const S8Operand& left, const S8Operand& right,
             const std::byte* packed_right, std::byte* scratch, const S8Output& output);

// The bytes from row to row of the left operand of gemm_s8_serial; those behind k are zeros.
std::int64_t gemm_s8_left_stride(std::int64_t k);
// Whether a zero point of the operand changes sums: it does not where it stands for the middle of the type's range.
bool gemm_s8_has_zeros(const S8Operand& right);
// The plain sums of few rows, computed by the calling thread alone, without memory of its own: for products within a
// parallel loop. `left` are unsigned bytes with one zero point. `right.data` is not read, and its zero points only
// where gemm_s8_has_zeros says so.
void gemm_s8_serial(const S8Shape& shape, const std::uint8_t* left, std::uint8_t left_zero, const S8Operand& right,
                    bool has_zeros, const std::byte* packed_right, std::int32_t* sums);

}  // namespace tessera::backends::cpu
