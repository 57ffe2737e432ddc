// Declarations of the reference kernels of this folder, grouped by the file that holds them, for kernel_table.cpp.
// Kernels need not include it: a new operator would rebuild them all, and the linker catches a declaration that matches
// no definition.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::reference {

// element_wise_unary.cpp
void abs(KernelContext&);
void acos(KernelContext&);
void acosh(KernelContext&);
void asin(KernelContext&);
void asinh(KernelContext&);
void atan(KernelContext&);
void atanh(KernelContext&);
void bitwise_not(KernelContext&);
void ceil(KernelContext&);
void clip(KernelContext&);
void cos(KernelContext&);
void cosh(KernelContext&);
void erf(KernelContext&);
void exp(KernelContext&);
void floor(KernelContext&);
void is_inf(KernelContext&);
void is_nan(KernelContext&);
void log(KernelContext&);
void logical_not(KernelContext&);
void neg(KernelContext&);
void reciprocal(KernelContext&);
void round(KernelContext&);
void sign(KernelContext&);
void sin(KernelContext&);
void sinh(KernelContext&);
void sqrt(KernelContext&);
void tan(KernelContext&);

// activation.cpp
void celu(KernelContext&);
void elu(KernelContext&);
void gelu(KernelContext&);
void hard_sigmoid(KernelContext&);
void hard_swish(KernelContext&);
void leaky_relu(KernelContext&);
void mish(KernelContext&);
void relu(KernelContext&);
void selu(KernelContext&);
void shrink(KernelContext&);
void sigmoid(KernelContext&);
void softplus(KernelContext&);
void softsign(KernelContext&);
void swish(KernelContext&);
void tanh(KernelContext&);
void thresholded_relu(KernelContext&);

// element_wise_binary.cpp
void add(KernelContext&);
void bit_shift(KernelContext&);
void bitwise_and(KernelContext&);
void bitwise_or(KernelContext&);
void bitwise_xor(KernelContext&);
void div(KernelContext&);
void max(KernelContext&);
void mean(KernelContext&);
void min(KernelContext&);
void mod(KernelContext&);
void mul(KernelContext&);
void p_relu(KernelContext&);
void pow(KernelContext&);
void sub(KernelContext&);
void sum(KernelContext&);
void where(KernelContext&);

// comparison.cpp
void equal(KernelContext&);
void greater(KernelContext&);
void greater_or_equal(KernelContext&);
void less(KernelContext&);
void less_or_equal(KernelContext&);
void logical_and(KernelContext&);
void logical_or(KernelContext&);
void logical_xor(KernelContext&);

// cast.cpp
void cast(KernelContext&);
void cast_like(KernelContext&);
void bit_cast(KernelContext&);

}  // namespace tessera::backends::reference
