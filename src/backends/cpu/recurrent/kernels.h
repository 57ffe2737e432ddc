// The functions, factories and reject rules that recurrent/kernel_table.cpp lists, grouped by the stem of the file that
// defines them.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// recurrent
std::string reject_recurrent_f32(const ops::NodeView& view);
KernelPointer make_recurrent_f32(const ops::NodeView& view, WeightStore& weights);
std::string reject_recurrent_bf16(const ops::NodeView& view);

// recurrent_gradient_f32; rejects what recurrent_f32 does
KernelPointer make_recurrent_gradient_f32(const ops::NodeView& view, WeightStore& weights);

// recurrent_s8
std::string reject_recurrent_s8(const ops::NodeView& view);
KernelPointer make_recurrent_s8(const ops::NodeView& view, WeightStore& weights);

// recurrent_bf16
KernelPointer make_recurrent_bf16(const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::cpu
