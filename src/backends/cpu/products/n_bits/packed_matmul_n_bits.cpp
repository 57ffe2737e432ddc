// MatMulNBits on constant weights that are packed into panels once per model, where the model allows activations to be
// rounded to 8 bits (accuracy_level 4). They are rounded in blocks of at most 32, which is never coarser than the
// blocks of the weights.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/block_panel_product.h"
#include "backends/cpu/products/kernels.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kRoundsActivations = 4;  // the accuracy_level that allows it
constexpr std::int64_t kWidestGroup = 32;

struct NBitsWeights {
  explicit NBitsWeights(const ops::NodeView& view)
      : n(view.integer("N")),
        k(view.integer("K")),
        bits(view.integer("bits")),
        block(view.integer("block_size")),
        blocks(base::ceil_divide(k, block)),
        group(std::min(block, kWidestGroup)) {}

  BlockPanelLayout layout(bool has_offsets) const {
    BlockPanelLayout made{group, k / group, bits <= 4, 1 << (bits - 1), false, has_offsets};
    set_panel_bytes(made);
    return made;
  }

  std::int64_t n, k, bits, block, blocks;
  std::int64_t group;  // weights of a panel that share a scale
};

// The constants besides the weights, of which a packing depends.
struct ScalesAndZeros {
  explicit ScalesAndZeros(const ops::NodeView& view)
      : scales(*view.constant(2)), zeros(view.has_input(3) ? view.constant(3) : nullptr) {}

  // scale · (middle − zero point) of a block.
  float offset(const NBitsWeights& weights, std::int64_t row, std::int64_t block) const {
    const std::int64_t at = row * weights.blocks + block;
    float zero = 0;
    if (zeros->dtype() == DType::u8) {
      const std::int64_t row_bytes = base::ceil_divide(weights.blocks * weights.bits, 8), bit = block * weights.bits;
      const int byte = zeros->data<std::uint8_t>()[row * row_bytes + bit / 8];
      zero = static_cast<float>(byte >> (bit % 8) & ((1 << weights.bits) - 1));
    } else {
      zero = zeros->data<float>()[at];
    }
    return scales.data<float>()[at] * (static_cast<float>(1 << (weights.bits - 1)) - zero);
  }

  // A number that tells other constants apart.
  std::uint64_t mark() const {
    std::uint64_t sum = mixed(scales, 0x9E3779B97F4A7C15U);
    return zeros != nullptr ? mixed(*zeros, sum) : sum;
  }

  Tensor scales;
  const Tensor* zeros;  // null: 2^(bits − 1)

 private:
  static std::uint64_t mixed(const Tensor& tensor, std::uint64_t sum) {
    const auto* bytes = static_cast<const std::byte*>(tensor.raw());
    for (std::int64_t at = 0; at < tensor.bytes(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + at, static_cast<std::size_t>(std::min<std::int64_t>(8, tensor.bytes() - at)));
      sum = (sum ^ word) * 0xFF51AFD7ED558CCDU;
      sum ^= sum >> 32;
    }
    return sum;
  }
};

// Rows that fill up the last panel have scales of zero.
void pack_n_bits(const NBitsWeights& weights, const ScalesAndZeros& numbers, const BlockPanelLayout& layout,
                 const std::uint8_t* from, std::uint8_t* to) {
  const std::int64_t row_bytes = weights.blocks * (weights.block / 8 * weights.bits), mask = (1 << weights.bits) - 1;
  std::fill_n(to, base::ceil_divide(weights.n, kPanelRows) * panel_bytes(layout), std::uint8_t{0});
  std::vector<std::int8_t> codes(static_cast<std::size_t>(weights.group));
  for (std::int64_t row = 0; row < weights.n; ++row) {
    const PanelWriter panel(layout, to + row / kPanelRows * panel_bytes(layout));
    const std::uint8_t* const bytes = from + row * row_bytes;
    for (std::int64_t g = 0; g < layout.groups; ++g) {
      for (std::int64_t e = 0; e < weights.group; ++e) {
        const std::int64_t bit = (g * weights.group + e) * weights.bits;
        codes[static_cast<std::size_t>(e)] =
            static_cast<std::int8_t>((bytes[bit / 8] >> (bit % 8) & mask) - layout.zero);
      }
      const std::int64_t block = g * weights.group / weights.block;
      panel.write(codes.data(), numbers.scales.data<float>()[row * weights.blocks + block],
                  layout.has_offsets ? numbers.offset(weights, row, block) : 0, g, row % kPanelRows);
    }
  }
}

class PackedMatMulNBits final : public Kernel {
 public:
  PackedMatMulNBits(const ops::NodeView& view, WeightStore& store)
      : PackedMatMulNBits(view, store, NBitsWeights(view), ScalesAndZeros(view)) {}

  std::int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(KernelContext& context) const override { product_.run(context, packed_->data.get(), 5); }

 private:
  PackedMatMulNBits(const ops::NodeView& view, WeightStore& store, const NBitsWeights& weights,
                    const ScalesAndZeros& numbers)
      : product_(weights.layout(numbers.zeros != nullptr), weights.n, weights.group,
                 view.input(0).elements() / weights.k) {
    const auto name = fmt::format("n_bits_panels_v1:bits{},block{},N{},K{},{:016x}", weights.bits, weights.block,
                                  weights.n, weights.k, numbers.mark());
    packed_ =
        store.find_or_pack(*view.constant(1), name, product_.packed_bytes(), [&](const Tensor& from, std::byte* to) {
          pack_n_bits(weights, numbers, product_.layout(), from.data<std::uint8_t>(),
                      reinterpret_cast<std::uint8_t*>(to));
        });
  }

  BlockPanelProduct product_;
  std::shared_ptr<const PackedWeights> packed_;
};

}  // namespace

std::string reject_packed_matmul_n_bits(const ops::NodeView& view) {
  if (active_isa() < base::Isa::avx2) return "no AVX2";
  if (view.integer("accuracy_level") != kRoundsActivations)
    return "accuracy_level does not allow activations of 8 bits";
  if (view.input(0).dtype != DType::f32) return fmt::format("A of type {}; expected f32", name_of(view.input(0).dtype));
  if (view.has_input(4)) return "blocks by g_idx";
  if (view.constant(1) == nullptr || view.constant(2) == nullptr || (view.has_input(3) && view.constant(3) == nullptr))
    return "the weights are not constant";
  const NBitsWeights weights(view);
  return weights.k % weights.group == 0 ? "" : fmt::format("K is no multiple of {}", weights.group);
}

KernelPointer make_packed_matmul_n_bits(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<PackedMatMulNBits>(view, weights);
}

}  // namespace tessera::backends::cpu
