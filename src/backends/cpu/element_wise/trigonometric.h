// Vectorised trigonometric functions of rows of floats, for kernels of one operand (element_wise_unary.h).
#pragma once

#include <cstdint>

#include "backends/cpu/element_wise/element_wise_unary.h"

namespace tessera::backends::cpu {

// y = f(x); x and y may be the same memory. The result of an element does not depend on its position in the row.
void sin_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void cos_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void tan_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void asin_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void acos_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void atan_row(const float* x, float* y, std::int64_t count, UnaryParameters);

}  // namespace tessera::backends::cpu
