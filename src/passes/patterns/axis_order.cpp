#include "passes/patterns/axis_order.h"

#include <algorithm>

#include "ops/convolutions/channels_last.h"
#include "ops/op_table.h"

namespace tessera::passes {

bool moves_nothing(const ir::Dims& dims, const std::vector<std::int64_t>& axes) {
  std::vector<std::int64_t> left;
  for (const std::int64_t axis : axes) {
    if (dims[static_cast<std::size_t>(axis)] != ir::Dim(1)) left.push_back(axis);
  }
  return std::is_sorted(left.begin(), left.end());
}

std::optional<std::vector<std::int64_t>> reshape_target(const ir::Dims& dims, const std::vector<std::int64_t>& axes) {
  std::vector<std::int64_t> target{0};
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const ir::Dim& dim = dims[static_cast<std::size_t>(axes[i])];
    if (!dim.is_known() || dim.value() == 0) return std::nullopt;
    target.push_back(dim.value());
  }
  return target;
}

std::int64_t moved_axis(std::int64_t axis, std::size_t rank) {
  const std::vector<std::int64_t> axes = ops::to_channels_last(rank);
  return std::find(axes.begin(), axes.end(), axis) - axes.begin();
}

bool has_channel_axis(const ir::Node& node) {
  return std::ranges::any_of(ops::op_of(node).attributes,
                             [](const ops::AttributeSpec& spec) { return spec.name == "channel_axis"; });
}

}  // namespace tessera::passes
