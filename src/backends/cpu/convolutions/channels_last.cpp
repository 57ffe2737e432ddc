#include "backends/cpu/convolutions/channels_last.h"

#include <algorithm>

#include "backends/cpu/machine/operand_rules.h"
#include "base/checked.h"
#include "ops/channels_last.h"

namespace tessera::backends::cpu {

ChannelsLastGeometry channels_last_geometry(const ops::NodeView& view, const std::vector<ops::WindowAxis>& axes) {
  ChannelsLastGeometry result;
  result.batch = view.input(0).shape.front();
  result.channels = view.input(0).shape.back();
  for (ops::WindowAxis& axis : result.axes) axis.input = axis.output = 1;
  std::copy(axes.begin(), axes.end(), result.axes + (3 - axes.size()));
  return result;
}

bool is_pointwise(const ChannelsLastGeometry& geometry) {
  return std::ranges::all_of(geometry.axes, [](const ops::WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.output == axis.input;
  });
}

std::string reject_channels_last_rank(const ops::NodeView& view) {
  const std::size_t rank = view.input(0).shape.size();
  return rank >= 3 && rank <= 5 ? "" : "more than three spatial axes";
}

std::string reject_channels_last_operands(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (view.node().attributes.contains("precision")) return "asks for bf16";
  if (view.constant(1) == nullptr || (view.has_input(2) && view.constant(2) == nullptr))
    return "weights or bias are no constants";
  if (std::string reason = reject_channels_last_rank(view); !reason.empty()) return reason;
  return reject_activation(view);
}

ChannelsLastGeometry channels_last_conv_geometry(const ops::NodeView& view) {
  return channels_last_geometry(
      view, ops::convolution_geometry(view, ops::channels_first(view.input(0).shape), view.input(1).shape));
}

ChannelsLastGeometry rows_geometry(const Shape& x) {
  ChannelsLastGeometry result{.channels = x.back()};
  for (ops::WindowAxis& axis : result.axes) axis.input = axis.output = 1;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) result.batch = base::checked_multiply(result.batch, x[i]);
  return result;
}

ChannelsLastGeometry channels_last_pool_geometry(const ops::NodeView& view) {
  return channels_last_geometry(view, ops::pooling_geometry(view, ops::channels_first(view.input(0).shape)));
}

}  // namespace tessera::backends::cpu
