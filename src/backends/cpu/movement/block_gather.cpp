#include "ops/movement/block_gather.h"

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "base/file_pages.h"
#include "base/numbers/block_format.h"
#include "ops/core/shape_arguments.h"
#include "ops/products/block_linear.h"

namespace tessera::backends::cpu {

// The table of a language model lies in its file, of which the system reads up to 64 KiB for each row. They are given
// back, so that the table does not gather in memory beside the copy that is packed for the head.
void block_gather(KernelContext& context) {
  constexpr std::int64_t kRowsTogether = 64;
  const ops::BlockWeights weights = ops::block_weights_of(context);
  const auto bytes = std::as_bytes(context.input(0).values<std::uint8_t>());
  const std::vector<std::int64_t> indices = ops::integers_of(context.input(1));
  float* const y = context.output(0).mutable_data<float>();
  const auto row_bytes = static_cast<std::size_t>(weights.row_bytes), k = static_cast<std::size_t>(weights.k);
  context.parallel_for(
      static_cast<std::int64_t>(indices.size()), kRowsTogether, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = checked_index(indices[static_cast<std::size_t>(i)], weights.n);
          base::dequantize(weights.format, bytes.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes),
                           {y + i * weights.k, k});
          if ((i + 1 - begin) % kRowsTogether == 0 || i + 1 == end)
            base::release_file_pages(bytes.data(), bytes.size());
        }
      });
}

}  // namespace tessera::backends::cpu
