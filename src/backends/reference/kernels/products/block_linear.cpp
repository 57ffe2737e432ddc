#include "ops/products/block_linear.h"

#include <cmath>
#include <limits>

#include "backends/backend.h"
#include "backends/transient_memory.h"

namespace tessera::backends::reference {
namespace {

// Replaces each block by what BlockLinear rounds it to.
void round_blocks(std::vector<double>& row, std::int64_t block) {
  for (std::size_t begin = 0; block > 0 && begin < row.size(); begin += static_cast<std::size_t>(block)) {
    const auto values = std::span(row).subspan(begin, static_cast<std::size_t>(block));
    float largest = 0;
    bool is_finite = true;
    for (const double x : values) {
      largest = std::max(largest, static_cast<float>(std::abs(x)));
      is_finite = is_finite && std::isfinite(x);
    }
    const float d = largest / 127.0f, factor = 127.0f / largest;
    const bool has_codes = d >= std::numeric_limits<float>::min();
    for (double& x : values) {
      if (!is_finite) x = std::numeric_limits<double>::quiet_NaN();
      else x = has_codes ? static_cast<double>(d) * std::nearbyint(static_cast<float>(x) * factor) : 0.0;
    }
  }
}

}  // namespace

void block_linear(KernelContext& context) {
  const ops::BlockWeights weights = ops::block_weights_of(context);
  const bool is_exact = context.integer("exact") != 0;
  const std::int64_t rows = context.input(0).elements() / weights.k;
  const auto bytes = std::as_bytes(context.input(1).values<std::uint8_t>());
  const float* const x = context.input(0).data<float>();
  float* const y = context.output(0).mutable_data<float>();
  std::vector<double> rounded = transient_vector<double>(rows * weights.k, 0.0);
  for (std::int64_t t = 0; t < rows; ++t) {
    std::vector<double> row(x + t * weights.k, x + (t + 1) * weights.k);
    if (!is_exact) round_blocks(row, ops::activation_block(weights.format));
    std::ranges::copy(row, rounded.begin() + t * weights.k);
  }
  std::vector<float> row = transient_vector<float>(weights.k, 0.0f);
  for (std::int64_t n = 0; n < weights.n; ++n) {
    context.check_stop();
    base::dequantize(
        weights.format,
        bytes.subspan(static_cast<std::size_t>(n * weights.row_bytes), static_cast<std::size_t>(weights.row_bytes)),
        row);
    for (std::int64_t t = 0; t < rows; ++t) {
      double sum = context.has_input(2) ? static_cast<double>(context.input(2).data<float>()[n]) : 0.0;
      for (std::int64_t k = 0; k < weights.k; ++k) sum += static_cast<double>(row[k]) * rounded[t * weights.k + k];
      y[t * weights.n + n] = static_cast<float>(sum);
    }
  }
}

}  // namespace tessera::backends::reference
