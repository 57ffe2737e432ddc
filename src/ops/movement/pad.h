// Pad and CenterCropPad: growing and cropping a tensor at its edges.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef pad;
extern const OpDef center_crop_pad;

enum class PadMode : std::uint8_t { constant, reflect, edge, wrap };
PadMode pad_mode(const AttributeReader& reader);

// Elements added (or, when negative, removed) in front of and behind every axis.
struct PadAmounts {
  std::vector<std::int64_t> begin, end;
};
// The amounts for inputs 'pads' and 'axes' of Pad; throws Error(invalid_model) when the counts or axes are wrong.
PadAmounts pad_amounts(std::span<const std::int64_t> pads, std::optional<std::vector<std::int64_t>> axes,
                       std::int64_t rank);
// Throws Error(invalid_model) when more is removed than there is.
ir::Dim padded_dim(const ir::Dim& dim, std::int64_t begin, std::int64_t end);

// Dimensions of CenterCropPad, whose `axes` default to all.
ir::Dims center_crop_pad_dims(const AttributeReader& reader, const ir::Dims& input,
                              std::span<const std::int64_t> request);

}  // namespace tessera::ops
