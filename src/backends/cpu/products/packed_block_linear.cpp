// BlockLinear on constant weights that are packed into panels once per model (block_panels.h): activations are rounded
// once per run, and each panel meets all of their rows while it is in the cache.
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/block_panels.h"
#include "backends/cpu/products/kernels.h"
#include "base/numbers/block_format.h"
#include "base/numbers/checked.h"
#include "base/numbers/half.h"
#include "ops/products/block_linear.h"

namespace tessera::backends::cpu {
namespace {

// How the codes, scales and offsets of base::decode_block are kept: codes plus `zero` fit four bits or a byte, and
// scales and offsets that the format has as float16 stay so.
struct PanelForm {
  bool nibbles;
  std::int32_t zero;
  bool half_scales, has_offsets;
};
// In the order of base::BlockFormat; formats without codes have no panels.
constexpr PanelForm kForms[] = {
    {false, 0, false, false},    // f32
    {false, 0, false, false},    // f16
    {false, 0, false, false},    // bf16
    {true, 8, true, false},      // q4_0
    {true, 0, true, true},       // q4_1
    {false, 128, true, false},   // q5_0
    {false, 128, true, true},    // q5_1
    {false, 128, true, false},   // q8_0
    {true, 0, false, true},      // q2_k
    {true, 8, false, false},     // q3_k
    {true, 0, false, true},      // q4_k
    {false, 128, false, true},   // q5_k
    {false, 128, false, false},  // q6_k
    {false, 128, true, false},   // iq4_nl
    {false, 128, false, false},  // iq4_xs
    {false, 128, false, false},  // mxfp4
};
static_assert(std::size(kForms) == static_cast<std::size_t>(base::BlockFormat::mxfp4) + 1);

BlockPanelLayout layout_of(const ops::BlockWeights& weights) {
  const PanelForm& form = kForms[static_cast<std::size_t>(weights.format)];
  const std::int64_t group = base::group_of(weights.format);
  BlockPanelLayout layout{group, weights.k / group, form.nibbles, form.zero, form.half_scales, form.has_offsets};
  layout.code_bytes = kPanelRows * group / (form.nibbles ? 2 : 1);
  layout.scale_bytes = kPanelRows * (form.half_scales ? 2 : 4);
  layout.group_bytes = layout.code_bytes + layout.scale_bytes * (form.has_offsets ? 2 : 1);
  return layout;
}

std::int64_t panel_bytes(const BlockPanelLayout& layout) {
  return base::checked_multiply(layout.group_bytes, layout.groups);
}

// Writes the parts of a panel.
class PanelWriter {
 public:
  PanelWriter(const BlockPanelLayout& layout, std::uint8_t* to) : layout_(layout), to_(to) {}

  // Group `from` of a decoded block becomes group `group` of a row.
  void write(const base::CodedBlock& block, std::int64_t from, std::int64_t group, std::int64_t row) const {
    std::uint8_t* const at = to_ + group * layout_.group_bytes;
    const std::int8_t* codes = block.codes + from * layout_.group;
    const std::int64_t half = layout_.group / 2;
    for (std::int64_t e = 0; e < (layout_.nibbles ? half : layout_.group); ++e) {
      int code = codes[e] + layout_.zero;
      if (layout_.nibbles) code |= (codes[e + half] + layout_.zero) << 4;
      at[(e / 4 * kPanelRows + row) * 4 + e % 4] = static_cast<std::uint8_t>(code);
    }
    write_number(block.scales[from], at + layout_.code_bytes, row);
    if (layout_.has_offsets) write_number(block.offsets[from], at + layout_.code_bytes + layout_.scale_bytes, row);
  }

 private:
  void write_number(float value, std::uint8_t* to, std::int64_t row) const {
    if (layout_.half_scales) reinterpret_cast<std::uint16_t*>(to)[row] = base::to_f16(value).bits;
    else reinterpret_cast<float*>(to)[row] = value;
  }

  const BlockPanelLayout& layout_;
  std::uint8_t* to_;
};

// Rows that fill up the last panel have scales of zero.
void pack(const ops::BlockWeights& weights, const BlockPanelLayout& layout, const std::byte* from, std::uint8_t* to) {
  const base::BlockLayout& format = base::layout_of(weights.format);
  const std::int64_t blocks = weights.k / format.elements, groups = format.elements / layout.group;
  std::fill_n(to, base::ceil_divide(weights.n, kPanelRows) * panel_bytes(layout), std::uint8_t{0});
  base::CodedBlock decoded;
  for (std::int64_t row = 0; row < weights.n; ++row) {
    const PanelWriter panel(layout, to + row / kPanelRows * panel_bytes(layout));
    for (std::int64_t block = 0; block < blocks; ++block, from += format.bytes) {
      base::decode_block(weights.format, from, decoded);
      for (std::int64_t g = 0; g < groups; ++g) panel.write(decoded, g, block * groups + g, row % kPanelRows);
    }
  }
}

class PackedBlockLinear final : public Kernel {
 public:
  PackedBlockLinear(const ops::NodeView& view, WeightStore& store)
      : weights_(ops::block_weights_of(view)),
        layout_(layout_of(weights_)),
        block_(ops::activation_block(weights_.format)),
        rows_(view.input(0).elements() / weights_.k),
        panels_(base::ceil_divide(weights_.n, kPanelRows)),
        multiply_(active_tiles() && rows_ >= kFewestPanelTileRows ? multiply_block_panel_amx
                  : active_vnni()                                 ? multiply_block_panel_avx512vnni
                                                                  : multiply_block_panel_avx2),
        round_(active_vnni() ? round_activations_avx512vnni : round_activations_avx2) {
    const auto name =
        fmt::format("block_panels_v1:{},N{},K{}", base::layout_of(weights_.format).name, weights_.n, weights_.k);
    packed_ = store.find_or_pack(*view.constant(1), name, base::checked_multiply(panels_, panel_bytes(layout_)),
                                 [&](const Tensor& weights, std::byte* to) {
                                   pack(weights_, layout_, std::as_bytes(weights.values<std::uint8_t>()).data(),
                                        reinterpret_cast<std::uint8_t*>(to));
                                 });
    const std::int64_t numbers = base::round_up(base::checked_multiply(rows_, layout_.groups * 4), 64);
    scales_at_ = base::round_up(base::checked_multiply(rows_, weights_.k), 64);
    starts_at_ = scales_at_ + numbers;
    sums_at_ = starts_at_ + numbers;
    scratch_ = sums_at_ + numbers;
  }

  std::int64_t scratch_bytes() const override { return scratch_; }

  void run(KernelContext& context) const override {
    if (rows_ == 0) return;
    const RoundedActivations x = round(context);
    const auto* panels = reinterpret_cast<const std::uint8_t*>(packed_->data.get());
    const float* bias = context.has_input(2) ? context.input(2).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t products = kPanelRows * weights_.k * rows_,
                       grain = std::max<std::int64_t>(1, kChunkProducts / products);
    context.parallel_for(panels_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t column = p * kPanelRows;
        multiply_(layout_, panels + p * panel_bytes(layout_), x, std::min(kPanelRows, weights_.n - column),
                  bias != nullptr ? bias + column : nullptr, y + column, weights_.n);
      }
    });
  }

 private:
  static constexpr std::int64_t kChunkProducts = std::int64_t{1} << 20;  // about ten microseconds

  RoundedActivations round(KernelContext& context) const {
    std::byte* const scratch = context.scratch();
    const RoundedActivations all{
        rows_, reinterpret_cast<std::int8_t*>(scratch), reinterpret_cast<float*>(scratch + scales_at_),
        reinterpret_cast<std::int32_t*>(scratch + starts_at_), reinterpret_cast<float*>(scratch + sums_at_)};
    const float* x = context.input(0).data<float>();
    context.parallel_for(rows_, std::max<std::int64_t>(1, 16384 / weights_.k),
                         [&](std::int64_t begin, std::int64_t end) { round_(layout_, x, begin, end, block_, all); });
    return all;
  }

  ops::BlockWeights weights_;
  BlockPanelLayout layout_;
  std::int64_t block_, rows_, panels_;
  void (*multiply_)(const BlockPanelLayout&, const std::uint8_t*, const RoundedActivations&, std::int64_t, const float*,
                    float*, std::int64_t);
  void (*round_)(const BlockPanelLayout&, const float*, std::int64_t, std::int64_t, std::int64_t,
                 const RoundedActivations&);
  std::shared_ptr<const PackedWeights> packed_;
  std::int64_t scales_at_ = 0, starts_at_ = 0, sums_at_ = 0, scratch_ = 0;
};

}  // namespace

std::string reject_packed_block_linear(const ops::NodeView& view) {
  if (active_isa() < base::Isa::avx2) return "no AVX2";
  if (view.integer("exact") != 0) return "activations are not rounded";
  if (view.constant(1) == nullptr) return "the weights are not constant";
  const ops::BlockWeights weights = ops::block_weights_of(view);
  return base::group_of(weights.format) == 0 ? "the weights have no codes" : "";
}

KernelPointer make_packed_block_linear(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<PackedBlockLinear>(view, weights);
}

}  // namespace tessera::backends::cpu
