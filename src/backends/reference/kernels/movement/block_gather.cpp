#include "ops/movement/block_gather.h"

#include "backends/backend.h"
#include "backends/reference/index.h"
#include "ops/core/shape_arguments.h"
#include "ops/products/block_linear.h"

namespace tessera::backends::reference {

void block_gather(KernelContext& context) {
  const ops::BlockWeights weights = ops::block_weights_of(context);
  const auto bytes = std::as_bytes(context.input(0).values<std::uint8_t>());
  const std::vector<std::int64_t> indices = ops::integers_of(context.input(1));
  float* to = context.output(0).mutable_data<float>();
  for (const std::int64_t index : indices) {
    const std::int64_t row = normalise_index(index, weights.n);
    base::dequantize(
        weights.format,
        bytes.subspan(static_cast<std::size_t>(row * weights.row_bytes), static_cast<std::size_t>(weights.row_bytes)),
        std::span(to, static_cast<std::size_t>(weights.k)));
    to += weights.k;
  }
}

}  // namespace tessera::backends::reference
