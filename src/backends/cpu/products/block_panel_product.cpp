#include "backends/cpu/products/block_panel_product.h"

#include <algorithm>

#include "backends/cpu/machine/simd.h"
#include "base/numbers/checked.h"
#include "base/numbers/half.h"

namespace tessera::backends::cpu {

namespace {

// The calling thread's tiles, while it multiplies panels.
class PanelTileLease {
 public:
  PanelTileLease(const BlockPanelLayout& layout, bool has_tiles) : has_tiles_(has_tiles) {
    if (has_tiles_) configure_panel_tiles(layout);
  }
  ~PanelTileLease() {
    if (has_tiles_) release_panel_tiles();
  }
  PanelTileLease(const PanelTileLease&) = delete;
  PanelTileLease& operator=(const PanelTileLease&) = delete;

 private:
  bool has_tiles_;
};

}  // namespace

void set_panel_bytes(BlockPanelLayout& layout) {
  layout.code_bytes = kPanelRows * layout.group / (layout.nibbles ? 2 : 1);
  layout.scale_bytes = kPanelRows * (layout.half_scales ? 2 : 4);
  layout.group_bytes = layout.code_bytes + layout.scale_bytes * (layout.has_offsets ? 2 : 1);
}

std::int64_t panel_bytes(const BlockPanelLayout& layout) {
  return base::checked_multiply(layout.group_bytes, layout.groups);
}

void PanelWriter::write(const std::int8_t* codes, float scale, float offset, std::int64_t group,
                        std::int64_t row) const {
  std::uint8_t* const at = to_ + group * layout_.group_bytes;
  const std::int64_t half = layout_.group / 2;
  for (std::int64_t e = 0; e < (layout_.nibbles ? half : layout_.group); ++e) {
    int code = codes[e] + layout_.zero;
    if (layout_.nibbles) code |= (codes[e + half] + layout_.zero) << 4;
    at[(e / 4 * kPanelRows + row) * 4 + e % 4] = static_cast<std::uint8_t>(code);
  }
  write_number(scale, at + layout_.code_bytes, row);
  if (layout_.has_offsets) write_number(offset, at + layout_.code_bytes + layout_.scale_bytes, row);
}

void PanelWriter::write_number(float value, std::uint8_t* to, std::int64_t row) const {
  if (layout_.half_scales) reinterpret_cast<std::uint16_t*>(to)[row] = base::to_f16(value).bits;
  else reinterpret_cast<float*>(to)[row] = value;
}

BlockPanelProduct::BlockPanelProduct(const BlockPanelLayout& layout, std::int64_t n, std::int64_t block,
                                     std::int64_t rows)
    : layout_(layout),
      n_(n),
      k_(base::checked_multiply(layout.group, layout.groups)),
      block_(block),
      rows_(rows),
      panels_(base::ceil_divide(n, kPanelRows)),
      multiply_(active_tiles() && rows >= kFewestPanelTileRows ? multiply_block_panel_amx
                : active_vnni()                                ? multiply_block_panel_avx512vnni
                                                               : multiply_block_panel_avx2),
      round_(active_vnni() ? round_activations_avx512vnni : round_activations_avx2) {
  const std::int64_t numbers = base::round_up(base::checked_multiply(rows_, layout_.groups * 4), 64);
  scales_at_ = base::round_up(base::checked_multiply(rows_, k_), 64);
  starts_at_ = scales_at_ + numbers;
  sums_at_ = starts_at_ + numbers;
  scratch_ = sums_at_ + numbers;
}

std::int64_t BlockPanelProduct::packed_bytes() const {
  return base::checked_multiply(panels_, panel_bytes(layout_));
}

void BlockPanelProduct::run(KernelContext& context, const std::byte* packed, std::size_t bias_input) const {
  // Either takes about ten microseconds: products of many rows, weights that a few rows read from memory.
  constexpr std::int64_t kChunkProducts = std::int64_t{1} << 20, kChunkBytes = std::int64_t{1} << 16;
  if (rows_ == 0) return;
  const RoundedActivations x = round(context);
  const auto* panels = reinterpret_cast<const std::uint8_t*>(packed);
  const float* bias = context.has_input(bias_input) ? context.input(bias_input).data<float>() : nullptr;
  float* y = context.output(0).mutable_data<float>();
  const std::int64_t grain = std::max<std::int64_t>(
      1, std::min(kChunkProducts / (kPanelRows * k_ * rows_), kChunkBytes / panel_bytes(layout_)));
  context.parallel_for(panels_, grain, [&](std::int64_t begin, std::int64_t end) {
    const PanelTileLease tiles(layout_, multiply_ == multiply_block_panel_amx);
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t column = p * kPanelRows;
      multiply_(layout_, panels + p * panel_bytes(layout_), x, std::min(kPanelRows, n_ - column),
                bias != nullptr ? bias + column : nullptr, y + column, n_);
    }
  });
}

RoundedActivations BlockPanelProduct::round(KernelContext& context) const {
  std::byte* const scratch = context.scratch();
  const RoundedActivations all{
      rows_, reinterpret_cast<std::int8_t*>(scratch), reinterpret_cast<float*>(scratch + scales_at_),
      reinterpret_cast<std::int32_t*>(scratch + starts_at_), reinterpret_cast<float*>(scratch + sums_at_)};
  const float* x = context.input(0).data<float>();
  context.parallel_for(rows_, std::max<std::int64_t>(1, 16384 / k_),
                       [&](std::int64_t begin, std::int64_t end) { round_(layout_, x, begin, end, block_, all); });
  return all;
}

}  // namespace tessera::backends::cpu
