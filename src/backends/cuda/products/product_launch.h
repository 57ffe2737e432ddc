// The rung of the ladder of products for a type and a device, and its launch.
#pragma once

#include <optional>
#include <string>

#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/kernels/products/product_parameters.h"
#include "backends/device_properties.h"
#include "tessera/dtype.h"

namespace tessera::backends::cuda {

struct ProductRung {
  std::string kernel;
  tessera::cuda::ProductLaunch tile;
};

// The fastest rung for dense operands of that type and depth, of those that the program holds for the device: see
// backends/cuda/kernels/products/product.h. TMA's rung waits for tensor maps by the driver.
std::optional<ProductRung> choose_rung(DType type, std::int64_t depth, const DeviceProperties& device);
// Why there is none.
std::string reason_without_rung(DType type, const DeviceProperties& device);

void launch_product(CudaStream& stream, const ProductRung& rung, const tessera::cuda::ProductParameters& parameters);

}  // namespace tessera::backends::cuda
