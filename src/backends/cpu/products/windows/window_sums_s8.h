// Sums over windows of bytes. If the zero point of the weights is not 0, its multiple of these sums belongs to each
// product of a window with signed weights.
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "backends/cpu/products/windows/windows.h"

namespace tessera::backends::cpu {

class WindowSumsS8 {
 public:
  // For channels-last data. Each group of its channels has windows of its own.
  WindowSumsS8(const ChannelsLastGeometry& geometry, std::int64_t groups);

  // Elements of working memory for run().
  std::int64_t elements() const;
  // Returns the sums of x − zero over the windows, [group][row], in `memory`. Padding adds nothing.
  const std::int32_t* run(const KernelContext& context, const std::uint8_t* x, std::uint8_t zero,
                          std::int32_t* memory) const;

 private:
  std::int64_t pixels() const { return geometry_.batch * geometry_.inputs(); }
  std::int64_t rows() const { return geometry_.batch * geometry_.outputs(); }
  void sum_line(const std::int32_t* pixel_sums, std::int64_t first_row, std::int32_t* to) const;

  ChannelsLastGeometry geometry_;
  std::int64_t groups_;
  bool pointwise_;  // windows are single pixels, in order
  void (*sum_pixels_)(const std::uint8_t* x, std::int64_t stride, std::int64_t bytes, std::int64_t pixels,
                      std::int32_t zeros, std::int32_t* to);
};

}  // namespace tessera::backends::cpu
