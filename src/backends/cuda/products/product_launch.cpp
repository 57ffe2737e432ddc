#include "backends/cuda/products/product_launch.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/launch_types.h"

namespace tessera::backends::cuda {

std::optional<ProductRung> choose_rung(DType type, std::int64_t depth, const DeviceProperties& device) {
  const std::string_view suffix = suffix_of(type);
  const auto has = [&](const std::string& kernel) { return reason_without_image(kernel, device).empty(); };
  const std::int64_t element_bytes = bits_of(type) / 8;
  std::vector<ProductRung> rungs;
  if (type != DType::f32) {
    if (depth * element_bytes % 16 == 0 && device.compute_capability >= ComputeCapability{8, 0})
      rungs.push_back({fmt::format("product_mma_{}", suffix), tessera::cuda::kMmaTile});
    rungs.push_back({fmt::format("product_wmma_{}", suffix), tessera::cuda::kWmmaTile});
  }
  rungs.push_back({fmt::format("product_tiles_{}", suffix), tessera::cuda::kTilesTile});
  const auto found = std::ranges::find_if(rungs, [&](const ProductRung& rung) { return has(rung.kernel); });
  return found != rungs.end() ? std::optional(*found) : std::nullopt;
}

std::string reason_without_rung(DType type, const DeviceProperties& device) {
  return reason_without_image(fmt::format("product_tiles_{}", suffix_of(type)), device);
}

void launch_product(CudaStream& stream, const ProductRung& rung, const tessera::cuda::ProductParameters& parameters) {
  LaunchShape shape;
  shape.grid = {blocks_of(parameters.columns, rung.tile.columns), blocks_of(parameters.rows, rung.tile.rows),
                static_cast<unsigned>(parameters.splits)};
  shape.block.x = static_cast<unsigned>(rung.tile.threads);
  stream.launch_with(rung.kernel, shape, parameters);
}

}  // namespace tessera::backends::cuda
