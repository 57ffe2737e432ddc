// Trigonometric functions of rows of floats by vectors, as kernels of one operand call them (element_wise_unary.h).
#pragma once

#include <cstdint>

#include "backends/cpu/element_wise/element_wise_unary.h"

namespace tessera::backends::cpu {

// y = f(x); x and y may be the same memory. A number's result does not depend on where in the row it lies.
void sin_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void cos_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void tan_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void asin_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void acos_row(const float* x, float* y, std::int64_t count, UnaryParameters);
void atan_row(const float* x, float* y, std::int64_t count, UnaryParameters);

}  // namespace tessera::backends::cpu
