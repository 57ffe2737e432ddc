// What the kernels for data with the channels last share.
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
// "" or why there is no kernel: more than three spatial axes.
std::string reject_channels_last_rank(const ops::NodeView& view);
// The same for an operator of f32 with weights and maybe a bias, and an activation.
std::string reject_channels_last_operands(const ops::NodeView& view);
// The same for one of several groups of few output channels: vectors of these would be empty for the most part.
std::string reject_few_outputs(const ops::NodeView& view);
// "" or why the gradient of a convolution is rather computed in float32 from numbers that are rounded to bfloat16. The
// geometry may be that of any of the convolution's operators.
std::string avoid_bf16_gradient(const ChannelsLastGeometry& geometry, bool has_groups);
// "" or why the layer is no depthwise convolution.
std::string reject_unless_depthwise(const ops::NodeView& view);
ChannelsLastGeometry channels_last_conv_geometry(const ops::NodeView& view);
// Of ChannelsLastConvTranspose: `input` of an axis are positions of X, `output` of Y.
ChannelsLastGeometry channels_last_conv_transpose_geometry(const ops::NodeView& view);
// A transposed convolution of stride 1 as the convolution that it is of the same data, with the taps of its weights in
// reverse; nothing where strides are larger or where it would have negative padding.
std::optional<ChannelsLastGeometry> turned_geometry(const ChannelsLastGeometry& transposed);
// The convolution as a product of its windows.
WindowLayer conv_layer(const ops::NodeView& view);
ChannelsLastGeometry channels_last_pool_geometry(const ops::NodeView& view);

// found(number of the line among all of the data, its first tap) for each line under the windows of the i-th line of
// results, as far as they are inside of the picture.
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
// The same with where the line begins in the data.
template <typename Found>
void for_each_line_under(const ChannelsLastGeometry& geometry, std::int64_t i, Found found) {
  for_each_line_number_under(geometry, i, [&](std::int64_t line, std::int64_t tap) {
    found(line * geometry.axes[2].input * geometry.channels, tap);
  });
}

}  // namespace tessera::backends::cpu
