#include "backends/cpu/rows/reduction_geometry.h"

#include <utility>

namespace tessera::backends::cpu {

ReductionGeometry::ReductionGeometry(const Shape& shape, std::span<const std::int64_t> axes) {
  std::vector<bool> is_reduced(shape.size(), false);
  for (const std::int64_t axis : axes) is_reduced[static_cast<std::size_t>(axis)] = true;
  std::vector<std::pair<ReductionAxis, bool>> merged;  // innermost first; with whether it is reduced
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (!merged.empty() && merged.back().second == is_reduced[i]) merged.back().first.count *= shape[i];
    else merged.push_back({{shape[i], stride}, is_reduced[i]});
    stride *= shape[i];
    if (is_reduced[i]) group *= shape[i];
  }
  along_rows = !merged.empty() && merged[0].second;
  if (!merged.empty()) line = merged[0].first.count;
  for (std::size_t i = merged.size(); i-- > 1;) {
    (merged[i].second ? reduced : kept).push_back(merged[i].first);
    if (!merged[i].second) results *= merged[i].first.count;
  }
}

std::int64_t offset_of(std::span<const ReductionAxis> axes, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t i = axes.size(); i-- > 0; index /= axes[i].count) offset += index % axes[i].count * axes[i].stride;
  return offset;
}

}  // namespace tessera::backends::cpu
