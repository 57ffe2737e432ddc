// The functions, factories and reject rules that element_wise/kernel_table.cpp lists, grouped by the stem of the file
// that defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// cast
std::string reject_cast(const ops::NodeView& view);
KernelPointer make_cast(const ops::NodeView& view, WeightStore& weights);

// comparison
std::string reject_comparison(const ops::NodeView& view);
KernelPointer make_comparison(const ops::NodeView& view, WeightStore& weights);

// dropout
std::string reject_dropout(const ops::NodeView& view);
void dropout(KernelContext& context);

// element_wise_binary
std::string reject_arithmetic(const ops::NodeView& view);
KernelPointer make_arithmetic(const ops::NodeView& view, WeightStore& weights);

// pow
std::string reject_pow(const ops::NodeView& view);
KernelPointer make_pow(const ops::NodeView& view, WeightStore& weights);

// element_wise_where
std::string reject_where(const ops::NodeView& view);
KernelPointer make_where(const ops::NodeView& view, WeightStore& weights);

// element_wise_program
std::string reject_element_wise(const ops::NodeView& view);
std::string avoid_element_wise(const ops::NodeView& view);
std::string reject_element_wise_f32(const ops::NodeView& view);
KernelPointer make_element_wise(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
