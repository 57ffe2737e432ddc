#include "backends/cuda/movement/strided_copy.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::backends::cuda {

using tessera::cuda::kCopyAxes;
using tessera::cuda::kCopyThreads;

std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

std::string copy_kernel_name(DType type) {
  const int bits = type == DType::string || type == DType::undefined ? 0 : bits_of(type);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? fmt::format("strided_copy_{}", bits) : "";
}

std::optional<CopyLaunch> CopyLaunch::make(DType type, const CopyLayout& layout) {
  struct Axis {
    std::int64_t size, x, y;
  };
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    const Axis next{layout.shape[i], layout.x_strides[i], layout.y_strides[i]};
    if (next.size == 1) continue;
    if (!axes.empty() && axes.back().x == next.x * next.size && axes.back().y == next.y * next.size) {
      axes.back() = {axes.back().size * next.size, next.x, next.y};
    } else {
      axes.push_back(next);
    }
  }
  if (axes.size() > static_cast<std::size_t>(kCopyAxes)) return std::nullopt;
  CopyLaunch copy;
  copy.kernel_ = copy_kernel_name(type);
  const std::int64_t element_bytes = bits_of(type) / 8;
  copy.x_offset_bytes_ = layout.x_offset * element_bytes;
  copy.y_offset_bytes_ = layout.y_offset * element_bytes;
  tessera::cuda::CopyParameters& p = copy.parameters_;
  std::ranges::fill(p.sizes, 1);
  const std::size_t first = static_cast<std::size_t>(kCopyAxes) - axes.size();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    p.sizes[first + i] = axes[i].size;
    p.x_strides[first + i] = axes[i].x;
    p.y_strides[first + i] = axes[i].y;
  }
  p.count = element_count(layout.shape);
  return copy;
}

void CopyLaunch::launch(CudaStream& stream, const void* x, void* y) const {
  if (parameters_.count == 0) return;
  tessera::cuda::CopyParameters p = parameters_;
  p.x = static_cast<const std::byte*>(x) + x_offset_bytes_;
  p.y = static_cast<std::byte*>(y) + y_offset_bytes_;
  // Blocks beyond this many take their elements in turns.
  constexpr std::int64_t kMostBlocks = 4096;
  LaunchShape shape;
  shape.grid.x = static_cast<unsigned>(std::min(kMostBlocks, (p.count + kCopyThreads - 1) / kCopyThreads));
  shape.block.x = kCopyThreads;
  stream.launch_with(kernel_, shape, p);
}

}  // namespace tessera::backends::cuda
