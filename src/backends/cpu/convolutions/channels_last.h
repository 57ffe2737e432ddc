// Geometry and reject rules shared by the kernels for channels-last data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/windows/window_plan.h"
#include "backends/cpu/products/windows/windows.h"
#include "ops/convolutions/window_geometry.h"

namespace tessera::backends::cpu {

ChannelsLastGeometry channels_last_geometry(const ops::NodeView& view, const std::vector<ops::WindowAxis>& axes);
// Returns "" or why there is no kernel: more than three spatial axes.
std::string reject_channels_last_rank(const ops::NodeView& view);
// As above, for a float32 operator with weights, an optional bias and an activation.
std::string reject_channels_last_operands(const ops::NodeView& view);
// As above; also rejects several groups with few output channels each, whose vectors would be mostly empty.
std::string reject_few_outputs(const ops::NodeView& view);
// Returns "" or why the gradient of a convolution should rather be computed in float32 from numbers rounded to
// bfloat16. The geometry may be that of any of the convolution's operators.
std::string avoid_bf16_gradient(const ChannelsLastGeometry& geometry, bool has_groups);
// Returns "" or why the layer is not a depthwise convolution.
std::string reject_unless_depthwise(const ops::NodeView& view);
ChannelsLastGeometry channels_last_conv_geometry(const ops::NodeView& view);
// The geometry of ChannelsLastConvTranspose: `input` of an axis counts positions of X, `output` those of Y.
ChannelsLastGeometry channels_last_conv_transpose_geometry(const ops::NodeView& view);
// The geometry of the convolution that equals a transposed convolution of stride 1 with its taps in reverse order;
// nothing if a stride is larger or the padding would be negative.
std::optional<ChannelsLastGeometry> turned_geometry(const ChannelsLastGeometry& transposed);
// The convolution as a product of its windows.
WindowLayer conv_layer(const ops::NodeView& view);
ChannelsLastGeometry channels_last_pool_geometry(const ops::NodeView& view);

// Calls found(index of the line among all lines of the data, index of its first tap) for each line of the data under
// the windows of the i-th line of results, leaving out lines outside of the image.
template <typename Found>
void for_each_line_number_under(const ChannelsLastGeometry& geometry, std::int64_t i, Found found) {
  const auto& [depth, lines, axis] = geometry.axes;
  const std::int64_t row = i % lines.output, plane = i / lines.output % depth.output,
                     image = i / lines.output / depth.output;
  for (std::int64_t kd = 0; kd < depth.kernel; ++kd) {
    const std::int64_t d = plane * depth.stride - depth.pad_begin + kd * depth.dilation;
    for (std::int64_t kh = 0; kh < lines.kernel && d >= 0 && d < depth.input; ++kh) {
      const std::int64_t h = row * lines.stride - lines.pad_begin + kh * lines.dilation;
      if (h < 0 || h >= lines.input) continue;
      found((image * depth.input + d) * lines.input + h, (kd * lines.kernel + kh) * axis.kernel);
    }
  }
}
// As above, but with the offset of the line in the data instead of its index.
template <typename Found>
void for_each_line_under(const ChannelsLastGeometry& geometry, std::int64_t i, Found found) {
  for_each_line_number_under(geometry, i, [&](std::int64_t line, std::int64_t tap) {
    found(line * geometry.axes[2].input * geometry.channels, tap);
  });
}

}  // namespace tessera::backends::cpu
