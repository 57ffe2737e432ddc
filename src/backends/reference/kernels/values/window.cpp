#include "ops/values/window.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// w_n = a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), where N is one less for a symmetric window; a single sample is 1.
void cosine_window(KernelContext& context, double a0, double a1, double a2) {
  const std::int64_t size = ops::positive_count(context.input(0), "size");
  Tensor& output = context.allocate_output(0, {size});
  const double length = static_cast<double>(context.integer("periodic") != 0 ? size : size - 1);
  std::vector<double> values = transient_vector<double>(size, 1.0);
  for (std::int64_t i = 0; size > 1 && i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / length;
    values[i] = a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle);
  }
  write(values, output);
}

double single_number(const Tensor& tensor, std::string_view name) {
  require(tensor.elements() == 1, ErrorKind::invalid_model, "input '{}' has shape {}, expected one element", name,
          to_string(tensor.shape()));
  return read<double>(tensor)[0];
}

}  // namespace

void hann_window(KernelContext& context) {
  cosine_window(context, 0.5, 0.5, 0);
}
void hamming_window(KernelContext& context) {
  cosine_window(context, 25.0 / 46, 21.0 / 46, 0);
}
void blackman_window(KernelContext& context) {
  cosine_window(context, 0.42, 0.5, 0.08);
}

// Triangular filters over the bins of a spectrum, evenly spaced in mel = 2595 log10(1 + hertz / 700); bins are computed
// as in ONNX's reference implementation.
void mel_weight_matrix(KernelContext& context) {
  const std::int64_t bands = ops::positive_count(context.input(0), "num_mel_bins"),
                     dft_length = ops::positive_count(context.input(1), "dft_length");
  const std::int64_t sample_rate = ops::positive_count(context.input(2), "sample_rate"), bins = dft_length / 2 + 1;
  require(sample_rate > 0, ErrorKind::failed, "sample_rate is 0");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(single_number(context.input(3), "lower_edge_hertz")),
               high = mel(single_number(context.input(4), "upper_edge_hertz"));
  require(std::isfinite(low) && std::isfinite(high), ErrorKind::failed, "the edges have no mel");
  Tensor& output = context.allocate_output(0, {bins, bands});
  std::vector<double> weights(static_cast<std::size_t>(output.elements()), 0.0);
  const double step = (high - low) / static_cast<double>(bands + 2);
  // Bins beyond the spectrum are equivalent; clamping keeps their numbers representable.
  const auto bin_of = [&](std::int64_t i) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + low) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(dft_length + 1) * hertz / static_cast<double>(sample_rate));
    return static_cast<std::int64_t>(std::clamp(bin, -0x1p50, 0x1p50));
  };
  const auto put = [&](std::int64_t bin, std::int64_t band, double weight) {
    if (bin >= 0 && bin < bins) weights[bin * bands + band] = weight;
  };
  for (std::int64_t band = 0; band < bands; ++band) {
    const std::int64_t left = bin_of(band), centre = bin_of(band + 1), right = bin_of(band + 2);
    if (left == centre) put(centre, band, 1);
    for (std::int64_t bin = std::max<std::int64_t>(left, 0); left != centre && bin <= std::min(centre, bins - 1);
         ++bin) {
      put(bin, band, static_cast<double>(bin - left) / static_cast<double>(centre - left));
    }
    for (std::int64_t bin = std::max<std::int64_t>(centre, 0); bin < std::min(right, bins); ++bin) {
      put(bin, band, static_cast<double>(right - bin) / static_cast<double>(right - centre));
    }
  }
  write(weights, output);
}

}  // namespace tessera::backends::reference
