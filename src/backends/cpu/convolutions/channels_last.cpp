#include "backends/cpu/convolutions/channels_last.h"

#include <algorithm>

#include "backends/cpu/machine/operand_rules.h"
#include "ops/convolutions/channels_last.h"
#include "ops/symbols.h"

namespace tessera::backends::cpu {

ChannelsLastGeometry channels_last_geometry(const ops::NodeView& view, const std::vector<ops::WindowAxis>& axes) {
  ChannelsLastGeometry result;
  result.batch = view.input(0).shape.front();
  result.channels = view.input(0).shape.back();
  for (ops::WindowAxis& axis : result.axes) axis.input = axis.output = 1;
  std::copy(axes.begin(), axes.end(), result.axes + (3 - axes.size()));
  return result;
}

std::string reject_channels_last_rank(const ops::NodeView& view) {
  const std::size_t rank = view.input(0).shape.size();
  return rank >= 3 && rank <= 5 ? "" : "more than three spatial axes";
}

std::string reject_channels_last_operands(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (ops::states_attribute(view.node(), "precision")) return "asks for bf16";
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  return reject_activation(view);
}

ChannelsLastGeometry channels_last_conv_geometry(const ops::NodeView& view) {
  return channels_last_geometry(
      view, ops::convolution_geometry(view, ops::channels_first(view.input(0).shape), view.input(1).shape));
}

ChannelsLastGeometry channels_last_conv_transpose_geometry(const ops::NodeView& view) {
  return channels_last_geometry(
      view, ops::transposed_geometry(view, ops::channels_first(view.input(0).shape), view.input(1).shape));
}

std::optional<ChannelsLastGeometry> turned_geometry(const ChannelsLastGeometry& transposed) {
  ChannelsLastGeometry turned = transposed;
  for (ops::WindowAxis& axis : turned.axes) {
    axis.pad_begin = axis.extent() - 1 - axis.pad_begin;
    axis.pad_end = axis.extent() - 1 - axis.pad_end;
    if (axis.stride != 1 || axis.pad_begin < 0 || axis.pad_end < 0) return std::nullopt;
  }
  return turned;
}

std::string reject_few_outputs(const ops::NodeView& view) {
  constexpr std::int64_t kFewOutputs = 8;
  const std::int64_t groups = view.integer("group");
  return groups > 1 && view.input(1).shape[0] / groups < kFewOutputs ? "few output channels a group" : "";
}

std::string reject_unless_depthwise(const ops::NodeView& view) {
  const Shape& w = view.input(1).shape;
  return w[1] == 1 && w[0] == view.integer("group") ? "" : "more than one channel a group";
}

WindowLayer conv_layer(const ops::NodeView& view) {
  const Shape& w = view.input(1).shape;
  const std::int64_t groups = view.integer("group");
  WindowLayer layer{
      .geometry = channels_last_conv_geometry(view), .groups = groups, .inputs = w[1], .outputs = w[0] / groups};
  layer.strides = {w[1] * layer.geometry.taps(), layer.geometry.taps(), 1};
  return layer;
}

ChannelsLastGeometry channels_last_pool_geometry(const ops::NodeView& view) {
  return channels_last_geometry(view, ops::pooling_geometry(view, ops::channels_first(view.input(0).shape)));
}

}  // namespace tessera::backends::cpu
