// A kernel for two operands that broadcast, shared by arithmetic and comparisons, and the lines of its operators and of
// Where.
#pragma once

#include "backends/backend.h"
#include "backends/cpu/element_wise/broadcast.h"

namespace tessera::backends::cpu {

enum class Arithmetic {
  add,
  sub,
  mul,
  div,
  mod,
  fmod,
  max,
  min,
  p_relu,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right
};

// Computes `count` elements of z from x and y, each of which advances or repeats one element.
using BinaryLine = void (*)(const void* x, const void* y, void* z, std::int64_t count);
// Chooses the line for a node, depending on which operands advance along lines.
using LineChooser = BinaryLine (*)(const ops::NodeView& view, bool x_moves, bool y_moves);

// Returns the line of an operator (Add, Sub, Mul, Div, Max, Min, PRelu) on float32; z may be the memory of an operand
// that advances.
BinaryLine f32_arithmetic_line(std::string_view op, bool x_moves, bool y_moves);

// z = condition ? x : y for elements of 4 bytes; each operand advances or repeats one element. z may be the memory of x
// or y.
void f32_where_line(const bool* condition, bool condition_moves, const void* x, bool x_moves, const void* y,
                    bool y_moves, void* z, std::int64_t count);

// A kernel whose operands both have the element type of input 0.
class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(const ops::NodeView& view, LineChooser choose);
  void run(KernelContext& context) const override;

 private:
  Broadcast broadcast_;
  BinaryLine line_;
  std::int64_t input_bytes_, output_bytes_;
  std::int64_t lines_together_ = 1;  // if they are short and one operand's are all the same
};

}  // namespace tessera::backends::cpu
