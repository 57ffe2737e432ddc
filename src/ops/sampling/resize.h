// Resize: interpolation along any axes, as ONNX Resize describes it.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef resize;

std::vector<AttributeSpec> resize_attributes();

enum class ResizeMode : std::uint8_t { nearest, linear, cubic };
ResizeMode resize_mode(const AttributeReader& reader);

// The parameters of the resizing of one axis.
struct ResizedAxis {
  std::int64_t size = 0;  // of the result
  double scale = 1;
  double roi_start = 0, roi_end = 1;  // used by tf_crop_and_resize alone
};

// One entry per axis of the input. A negative dimension is an unknown one: its entry has size -1 unless a size is
// given. Absent tensors are null. Throws Error(invalid_model) when inputs and attributes do not fit together,
// Error(over_budget) when a size has no 64-bit form.
std::vector<ResizedAxis> resolve_resize(const AttributeReader& reader, const Shape& input, const Tensor* roi,
                                        const Tensor* scales, const Tensor* sizes);

// The position `x` of the result along an axis in the coordinates of the input, which has `input` positions there; the
// formulas are those of attribute coordinate_transformation_mode, with the unrounded width of the result as in ONNX's
// reference implementation.
double resize_source_position(const AttributeReader& reader, const ResizedAxis& axis, std::int64_t x,
                              std::int64_t input);
// The weights of one position of the result along an axis: weights[i] applies to input position first + i; positions
// beyond the ends take the element at the end. `outside`: the result is the extrapolation value instead.
struct ResizeTaps {
  bool outside = false;
  std::int64_t first = 0;
  std::vector<double> weights = {};
};
ResizeTaps resize_taps(const AttributeReader& reader, const ResizedAxis& axis, std::int64_t position,
                       std::int64_t input);
// The position that attribute nearest_mode selects for a source position; it may lie outside the input.
std::int64_t resize_nearest_position(const AttributeReader& reader, double position);

}  // namespace tessera::ops
