#include "ops/attention/rotary_embedding.h"

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

void rotary_embedding(KernelContext& context) {
  const ops::RotarySizes sizes = ops::rotary_sizes(context, context.input(0).shape());
  std::vector<double> x = read<double>(context.input(0));
  const std::vector<double> cosines = read<double>(context.input(1)), sines = read<double>(context.input(2));
  const bool interleaved = context.integer("interleaved") != 0;
  const std::int64_t half = sizes.rotated / 2, rows = context.input(1).shape()[0];
  const std::vector<std::int64_t> positions =
      context.has_input(3) ? read<std::int64_t>(context.input(3)) : std::vector<std::int64_t>{};
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    for (std::int64_t t = 0; t < sizes.length; ++t) {
      std::int64_t row = b * sizes.length + t;
      if (context.has_input(3)) {
        row = positions[static_cast<std::size_t>(row)];
        require(row >= 0 && row < rows, ErrorKind::failed, "position {} is outside [0, {})", row, rows);
      }
      for (std::int64_t h = 0; h < sizes.heads; ++h) {
        const std::int64_t line =
            sizes.packed ? (b * sizes.length + t) * sizes.heads + h : (b * sizes.heads + h) * sizes.length + t;
        double* head = x.data() + line * sizes.head_size;
        for (std::int64_t i = 0; i < half; ++i) {
          double &first = head[interleaved ? 2 * i : i], &second = head[interleaved ? 2 * i + 1 : i + half];
          const double cosine = cosines[static_cast<std::size_t>(row * half + i)];
          const double sine = sines[static_cast<std::size_t>(row * half + i)];
          const double real = cosine * first - sine * second;
          second = sine * first + cosine * second;
          first = real;
        }
      }
    }
  }
  write(x, context.output(0));
}

}  // namespace tessera::backends::reference
