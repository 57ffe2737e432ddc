// BlockLinear on constant weights that are packed into panels once per model (block_panels.h): activations are rounded
// once per run, and each panel meets all of their rows while it is in the cache.
#include <algorithm>
#include <iterator>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/block_panel_product.h"
#include "backends/cpu/products/kernels.h"
#include "base/numbers/block_format.h"
#include "base/numbers/checked.h"
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
  set_panel_bytes(layout);
  return layout;
}

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
      for (std::int64_t g = 0; g < groups; ++g)
        panel.write(decoded.codes + g * layout.group, decoded.scales[g], decoded.offsets[g], block * groups + g,
                    row % kPanelRows);
    }
  }
}

class PackedBlockLinear final : public Kernel {
 public:
  PackedBlockLinear(const ops::NodeView& view, WeightStore& store)
      : PackedBlockLinear(view, store, ops::block_weights_of(view)) {}

  std::int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(KernelContext& context) const override { product_.run(context, packed_->data.get(), 2); }

 private:
  PackedBlockLinear(const ops::NodeView& view, WeightStore& store, const ops::BlockWeights& weights)
      : product_(layout_of(weights), weights.n, ops::activation_block(weights.format),
                 view.input(0).elements() / weights.k) {
    const auto name =
        fmt::format("block_panels_v1:{},N{},K{}", base::layout_of(weights.format).name, weights.n, weights.k);
    packed_ =
        store.find_or_pack(*view.constant(1), name, product_.packed_bytes(), [&](const Tensor& from, std::byte* to) {
          pack(weights, product_.layout(), std::as_bytes(from.values<std::uint8_t>()).data(),
               reinterpret_cast<std::uint8_t*>(to));
        });
  }

  BlockPanelProduct product_;
  std::shared_ptr<const PackedWeights> packed_;
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
