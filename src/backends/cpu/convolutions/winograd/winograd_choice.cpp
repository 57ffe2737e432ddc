// Decides for which convolutions Winograd's algorithm (winograd.cpp) is used.
#include <algorithm>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/winograd/winograd_transforms.h"
#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/windows/window_plan.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;

// With fewer tiles, reading the transformed weights is not worth it: they have four times the size of float32 weights,
// eight times that of bfloat16 weights.
constexpr std::int64_t kFewestTiles = 12, kFewestTilesOfBf16 = 32;
constexpr std::int64_t kFewestChannels = 16, kFewestChannelsOfBf16 = 32;
// The least number of tiles for weights that are not constants, whose transforms each run computes.
constexpr std::int64_t kFewestTilesOfVariables = 48;
// The least ratio of multiplications in direct convolution to those in Winograd's. Lower for dilated float32
// convolutions: direct convolution then finds the taps of each tile one by one, with smaller tiles that do not cross
// lines.
constexpr double kLeastSaved = 2, kLeastSavedDilated = 1.6;

std::string reject_unless_3x3(const ops::NodeView& view) {
  const Shape& w = view.input(1).shape;
  return w.size() < 4 || w[w.size() - 2] != 3 || w.back() != 3 || view.integer("group") != 1
             ? "no window of 3 x 3 at the end"
             : "";
}

std::string reject_winograd(const ops::NodeView& view) {
  if (std::string reason = reject_unless_3x3(view); !reason.empty()) return reason;
  const Shape& w = view.input(1).shape;
  const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
  for (const std::size_t i : {1, 2}) {
    if (geometry.axes[i].stride != 1) return "strides";
  }
  const ops::WindowAxis& depth = geometry.axes[0];
  if (depth.kernel > 1 && depth.dilation > depth.input) return "taps too far apart";
  return geometry.batch * geometry.outputs() * w[0] * w[1] == 0 ? "nothing to compute" : "";
}

// The number of tiles along the axis in all phases of a dilated window.
std::int64_t tiles_along(const ops::WindowAxis& axis) {
  const std::int64_t phases = std::min(axis.dilation, axis.output), longer = axis.output % axis.dilation;
  if (phases < axis.dilation) return phases;
  return longer * ceil_divide(axis.output / axis.dilation + 1, kWinogradTile) +
         (axis.dilation - longer) * ceil_divide(axis.output / axis.dilation, kWinogradTile);
}

std::string avoid_winograd(const ops::NodeView& view, const ChannelsLastGeometry& geometry,
                           std::int64_t fewest_channels, std::int64_t fewest_tiles,
                           double least_saved_dilated = kLeastSavedDilated) {
  const Shape& w = view.input(1).shape;
  if (std::min(w[0], w[1]) < fewest_channels) return "few channels";
  double tiles = static_cast<double>(geometry.batch * geometry.axes[0].output);
  double direct = 9.0 * static_cast<double>(geometry.batch * geometry.outputs());  // multiplications per channel pair
  for (const std::size_t i : {1, 2}) {
    const ops::WindowAxis& axis = geometry.axes[i];
    tiles *= static_cast<double>(tiles_along(axis));
    // Taps in the padding of dilated windows are mostly skipped by direct convolution.
    if (axis.dilation > 1) direct *= share_inside(axis);
  }
  if (tiles < static_cast<double>(fewest_tiles)) return "few tiles of 4 x 4";
  // The part of a tile beyond the result is computed in vain.
  const double saved = direct / (static_cast<double>(kWinogradParts) * tiles);
  const bool dilated = geometry.axes[1].dilation > 1 || geometry.axes[2].dilation > 1;
  return saved < (dilated ? least_saved_dilated : kLeastSaved) ? "thin results" : "";
}

std::int64_t fewest_tiles_of_f32(const ops::NodeView& view) {
  return view.constant(1) == nullptr ? kFewestTilesOfVariables : kFewestTiles;
}

}  // namespace

std::string reject_winograd_f32(const ops::NodeView& view) {
  if (std::string reason = reject_conv_f32(view); !reason.empty()) return reason;
  return reject_winograd(view);
}
std::string avoid_winograd_f32(const ops::NodeView& view) {
  return avoid_winograd(view, channels_last_conv_geometry(view), kFewestChannels, fewest_tiles_of_f32(view));
}

std::string reject_turned_winograd_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  if (std::string reason = reject_unless_3x3(view); !reason.empty()) return reason;
  const std::optional<ChannelsLastGeometry> geometry = turned_geometry(channels_last_conv_transpose_geometry(view));
  if (!geometry) return "strides, or more padding than the windows reach";
  const Shape& w = view.input(1).shape;
  const ops::WindowAxis& depth = geometry->axes[0];
  if (depth.kernel > 1 && depth.dilation > depth.input) return "taps too far apart";
  return geometry->batch * geometry->outputs() * w[0] * w[1] == 0 ? "nothing to compute" : "";
}
std::string avoid_turned_winograd_f32(const ops::NodeView& view) {
  return avoid_winograd(view, *turned_geometry(channels_last_conv_transpose_geometry(view)), kFewestChannels,
                        fewest_tiles_of_f32(view));
}

std::string reject_winograd_bf16(const ops::NodeView& view) {
  if (std::string reason = reject_conv_bf16(view); !reason.empty()) return reason;
  return reject_winograd(view);
}
// Weighs a quarter of the multiplications in float32 against all of them in bfloat16: at twice the speed if the machine
// has bfloat16 instructions, at sixteen times with tile registers. With volumes sums are longer, and transforms a
// smaller part.
std::string avoid_winograd_bf16(const ops::NodeView& view) {
  if (active_tiles() || emulates_tiles()) return "tile registers multiply faster";
  if (!active_bf16() || channels_last_conv_geometry(view).axes[0].kernel > 1)
    return avoid_winograd(view, channels_last_conv_geometry(view), kFewestChannels, kFewestTiles);
  return avoid_winograd(view, channels_last_conv_geometry(view), kFewestChannelsOfBf16, kFewestTilesOfBf16,
                        kLeastSaved);
}

}  // namespace tessera::backends::cpu
