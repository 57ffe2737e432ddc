// Sliding windows of convolutions and pooling: computes the geometry of every spatial axis from a node's attributes and
// its operands' shapes. The only place for padding modes, rounding and checks; inference and the kernels of every
// device use it. Formulas: ONNX operator documentation of Conv, ConvTranspose and MaxPool (opset 22).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

// One spatial axis. Output position o looks at input positions o * stride - pad_begin + k * dilation for k in [0,
// kernel); those outside [0, input) are padding. For transposed windows input position i adds to the output positions
// i * stride - pad_begin + k * dilation; those outside [0, output) are dropped.
//
// With ceil_mode, where the window of a pooling is larger than the padded input, or where a transposed convolution asks
// for more output than its windows cover, a window may reach beyond input + pad_end; pad_begin and pad_end are never
// adjusted for that. pad_begin and pad_end are >= 0, except for transposed windows with an explicit output_shape, where
// they may be negative. Strides, dilations and kernels are >= 1.
struct WindowAxis {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;

  // Positions that a window spans: (kernel - 1) * dilation + 1.
  std::int64_t extent() const { return (kernel - 1) * dilation + 1; }
  // Taps of the window of output `o` at input positions [low, high).
  std::int64_t taps_within(std::int64_t o, std::int64_t low, std::int64_t high) const;
  friend bool operator==(const WindowAxis&, const WindowAxis&) = default;
};

enum class AutoPad : std::uint8_t { not_set, valid, same_upper, same_lower };

// A node's window attributes with defaults filled in, checked: every list has `rank` entries, pads 2 * rank; strides,
// dilations and kernel sizes are >= 1 and pads >= 0; extents fit into 64 bits.
struct WindowAttributes {
  std::vector<std::int64_t> kernel, strides, dilations, pads;
  AutoPad auto_pad = AutoPad::not_set;
  bool ceil_mode = false;
  bool pools = false;  // there are no weights

  std::size_t rank() const { return kernel.size(); }
};

// Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode, as far as the operator declares them.
// `weight_kernel` is the kernel size according to the weights' shape, of which unknown entries are -1 (all of them for
// pooling); it must agree with kernel_shape. Throws Error(invalid_model).
WindowAttributes read_window_attributes(const AttributeReader& reader, std::span<const std::int64_t> weight_kernel);

// The geometry of one axis of a (not transposed) window over `input` positions. A pooling window larger than the padded
// input follows the formula with truncating integer division, as in ONNX's shape inference and onnxruntime: one output
// from the positions present if less than one stride is missing, none if less than two strides are. Throws
// Error(invalid_model) when the window is larger still, Error(over_budget) on overflow.
WindowAxis resolve_window_axis(const WindowAttributes& attributes, std::size_t axis, std::int64_t input);

// The output size of an axis whose input may be symbolic; the symbol's name is kept where the window preserves the
// size.
ir::Dim window_output_dim(const WindowAttributes& attributes, std::size_t axis, const ir::Dim& input);

// Geometry of all spatial axes of Conv, ConvInteger, QLinearConv, DeformConv (weights [M, C/group, kernel...]).
std::vector<WindowAxis> convolution_geometry(const AttributeReader& reader, const Shape& input, const Shape& weights);
// The geometry of all spatial axes of AveragePool, MaxPool and LpPool.
std::vector<WindowAxis> pooling_geometry(const AttributeReader& reader, const Shape& input);

// The size that unpooling gives an axis of `input` pooled elements: (input - 1) * stride + kernel - pads. Throws
// Error(invalid_model) when that is negative.
std::int64_t unpooled_size(const WindowAttributes& attributes, std::size_t axis, std::int64_t input);

// Geometry of one axis of ConvTranspose with attributes output_shape and output_padding.
WindowAxis resolve_transposed_axis(const AttributeReader& reader, const WindowAttributes& attributes, std::size_t axis,
                                   std::int64_t input);
// The geometry of all spatial axes of ConvTranspose (weights [C, M/group, kernel...]).
std::vector<WindowAxis> transposed_geometry(const AttributeReader& reader, const Shape& input, const Shape& weights);

// The group attribute, checked against channels of input and weights: group >= 1, group divides `outputs` and
// group * weight_inputs == inputs. Throws Error(invalid_model).
std::int64_t convolution_groups(const AttributeReader& reader, std::int64_t inputs, std::int64_t weight_inputs,
                                std::int64_t outputs);

}  // namespace tessera::ops
