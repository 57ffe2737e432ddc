#include "cost/alignment.h"

#include <algorithm>

namespace tessera::cost {
namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return ceil_divide(size, multiple) * multiple;
}

struct Fit {
  std::int64_t tiles = 0, waves = 0;
  double tile_utilisation = 0, wave_utilisation = 0;
  double utilisation() const { return tile_utilisation * wave_utilisation; }
};

Fit fit(const Product& product, const Tile& tile, int multiprocessors) {
  const std::int64_t rows = ceil_divide(product.m, tile.m), columns = ceil_divide(product.n, tile.n);
  Fit result;
  // If there are fewer tiles than multiprocessors, K is split into slices of at least 256 elements, whose sums are
  // added.
  const std::int64_t whole = rows * columns * product.count;
  const std::int64_t slices = std::clamp<std::int64_t>(
      std::min(multiprocessors / std::max<std::int64_t>(whole, 1), product.k / 256), 1, multiprocessors);
  result.tiles = whole * slices;
  result.waves = ceil_divide(result.tiles, multiprocessors);
  result.tile_utilisation = static_cast<double>(product.m) * static_cast<double>(product.n) /
                            (static_cast<double>(rows * tile.m) * static_cast<double>(columns * tile.n));
  result.wave_utilisation = static_cast<double>(result.tiles) / static_cast<double>(result.waves * multiprocessors);
  return result;
}

// Chooses the largest tile, unless a smaller one fits better by a tenth: larger tiles reuse more of the data that they
// read.
void choose_tile(const Product& product, const DeviceProfile& device, Alignment& alignment) {
  constexpr double worth_a_smaller_tile = 1.1;
  Fit best;
  for (const Tile& tile : device.tiles) {
    const Fit found = fit(product, tile, device.multiprocessors);
    if (found.utilisation() <= best.utilisation() * worth_a_smaller_tile) continue;
    best = found;
    alignment.tile = tile;
  }
  alignment.tiles = best.tiles;
  alignment.waves = best.waves;
  alignment.tile_utilisation = best.tile_utilisation;
  alignment.wave_utilisation = best.wave_utilisation;
}

}  // namespace

std::int64_t alignment_multiple(Precision precision, std::int64_t bytes) {
  return bytes / storage_bytes(precision);
}

Alignment align(const Work& work, const DeviceProfile& device) {
  Alignment alignment;
  alignment.multiple = alignment_multiple(work.precision);
  alignment.best_multiple = alignment_multiple(work.precision, 128);
  const bool computes = work.gemm && work.gemm->m > 0 && work.gemm->n > 0 && work.gemm->k > 0 && work.gemm->count > 0;
  alignment.applies = computes && device.has_matrix_units(work.precision);
  if (!alignment.applies) return alignment;
  const Product& product = *work.gemm;
  const auto check = [&](const char* dimension, std::int64_t size) {
    if (size % alignment.multiple != 0)
      alignment.misaligned.push_back({dimension, size, round_up(size, alignment.multiple)});
  };
  const bool convolution = product.input_channels > 0;
  if (!convolution) check("M", product.m);
  const std::size_t rows_only = alignment.misaligned.size();
  check(convolution ? "output channels" : "N", convolution ? product.output_channels : product.n);
  check(convolution ? "input channels" : "K", convolution ? product.input_channels : product.k);
  alignment.aligned = alignment.misaligned.empty();
  // The number of rows does not affect alignment: each row begins at 16 bytes if its length is aligned.
  if (alignment.misaligned.size() > rows_only) alignment.aligned_share = device.misaligned_share;
  if (!device.tiles.empty() && device.multiprocessors > 0) choose_tile(product, device, alignment);
  return alignment;
}

std::optional<Work> padded(const Work& work, std::int64_t multiple) {
  if (!work.gemm || (!work.gemm->fixed_n && !work.gemm->fixed_k)) return std::nullopt;
  Work result = work;
  Product& product = *result.gemm;
  if (product.input_channels > 0) {
    // k and n are channels times taps.
    const auto pad = [&](std::int64_t& channels, std::int64_t& size) {
      if (channels == 0) return;
      const std::int64_t more = round_up(channels, multiple);
      size = size % channels == 0 ? size / channels * more : size;
      channels = more;
    };
    pad(product.input_channels, product.k);
    pad(product.output_channels, product.n);
  } else {
    if (product.fixed_n) product.n = round_up(product.n, multiple);
    if (product.fixed_k) product.k = round_up(product.k, multiple);
  }
  const Product& before = *work.gemm;
  if (product.n == before.n && product.k == before.k) return std::nullopt;
  const double wider = static_cast<double>(product.n) / static_cast<double>(before.n),
               deeper = static_cast<double>(product.k) / static_cast<double>(before.k);
  result.cost.operations *= wider * deeper;
  result.weight_bytes *= wider * deeper;
  result.cost.bytes_read = (work.cost.bytes_read - work.weight_bytes) * deeper + result.weight_bytes;
  result.cost.bytes_written *= wider;
  return result;
}

}  // namespace tessera::cost
