// Products with weights in panels (block_panels.h), for the operators that have such weights: activations are rounded
// once per run, and each panel meets all of their rows while it is in the cache.
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "backends/cpu/products/block_panels.h"

namespace tessera::backends::cpu {

// Sets the bytes of a layout by its other fields.
void set_panel_bytes(BlockPanelLayout& layout);
// The bytes of one panel.
std::int64_t panel_bytes(const BlockPanelLayout& layout);

// Writes the groups of one panel, whose bytes are zero before.
class PanelWriter {
 public:
  PanelWriter(const BlockPanelLayout& layout, std::uint8_t* to) : layout_(layout), to_(to) {}
  // `codes` are those of one group of a row, each less BlockPanelLayout::zero: weight = scale · code + offset.
  void write(const std::int8_t* codes, float scale, float offset, std::int64_t group, std::int64_t row) const;

 private:
  void write_number(float value, std::uint8_t* to, std::int64_t row) const;

  const BlockPanelLayout& layout_;
  std::uint8_t* to_;
};

class BlockPanelProduct {
 public:
  // `n` rows of weights; `rows` of activations, which are rounded in blocks of `block` elements.
  BlockPanelProduct(const BlockPanelLayout& layout, std::int64_t n, std::int64_t block, std::int64_t rows);

  const BlockPanelLayout& layout() const { return layout_; }
  // The bytes of all panels, and of the scratch memory of a run.
  std::int64_t packed_bytes() const;
  std::int64_t scratch_bytes() const { return scratch_; }
  // Multiplies input 0 with the panels, adds input `bias` where there is one, and writes output 0.
  void run(KernelContext& context, const std::byte* panels, std::size_t bias) const;

 private:
  RoundedActivations round(KernelContext& context) const;

  BlockPanelLayout layout_;
  std::int64_t n_, k_, block_, rows_, panels_;
  void (*multiply_)(const BlockPanelLayout&, const std::uint8_t*, const RoundedActivations&, std::int64_t, const float*,
                    float*, std::int64_t);
  void (*round_)(const BlockPanelLayout&, const float*, std::int64_t, std::int64_t, std::int64_t,
                 const RoundedActivations&);
  std::int64_t scales_at_ = 0, starts_at_ = 0, sums_at_ = 0, scratch_ = 0;
};

}  // namespace tessera::backends::cpu
