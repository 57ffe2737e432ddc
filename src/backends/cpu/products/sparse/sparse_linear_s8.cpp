// Product of 8-bit data with constant int8 weights of which whole blocks are zero. For each panel of outputs only the
// groups of four inputs with a nonzero weight are stored, and the data's bytes of these groups are gathered before the
// panel is multiplied. Sums are exact, so results are equal to those of the dense product.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/machine/simd.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/result_s8.h"
#include "backends/cpu/products/windows/indirect_product_s8.h"
#include "base/numbers/checked.h"
#include "ops/quantised/quantised_layers.h"

namespace tessera::backends::cpu {
namespace {

using At = ops::QuantisedLayerInputs;
using base::ceil_divide;

constexpr std::int64_t kPanel = kS8Lanes;

// The groups of each panel that have a nonzero weight; at least one per panel, so that there is a sum.
struct SparseGroups {
  std::int64_t inputs = 0, outputs = 0;
  std::vector<std::int64_t> starts{0};  // index of each panel's first group
  std::vector<std::int32_t> places;     // position of each group within a row

  std::int64_t panels() const { return ceil_divide(outputs, kPanel); }
  std::int64_t row_groups() const { return ceil_divide(inputs, kS8Group); }
};

// `weights` [inputs, outputs].
SparseGroups find_groups(const Tensor& weights) {
  SparseGroups found{weights.shape()[0], weights.shape()[1]};
  const std::int8_t* w = weights.data<std::int8_t>();
  for (std::int64_t first = 0; first < found.outputs; first += kPanel) {
    const std::int64_t columns = std::min(kPanel, found.outputs - first);
    for (std::int64_t group = 0; group < found.row_groups(); ++group) {
      bool any = false;
      for (std::int64_t k = group * kS8Group; k < std::min(found.inputs, (group + 1) * kS8Group); ++k) {
        const std::int8_t* line = w + k * found.outputs + first;
        any = any || std::any_of(line, line + columns, [](std::int8_t value) { return value != 0; });
      }
      if (any) found.places.push_back(static_cast<std::int32_t>(group));
    }
    if (static_cast<std::int64_t>(found.places.size()) == found.starts.back()) found.places.push_back(0);
    found.starts.push_back(static_cast<std::int64_t>(found.places.size()));
  }
  return found;
}

// [panel][group][column][4]
void pack_groups(const Tensor& weights, const SparseGroups& groups, std::int8_t* to) {
  const std::int8_t* w = weights.data<std::int8_t>();
  for (std::int64_t panel = 0; panel < groups.panels(); ++panel) {
    const auto at = static_cast<std::size_t>(panel);
    for (std::int64_t i = groups.starts[at]; i < groups.starts[at + 1]; ++i) {
      for (std::int64_t column = panel * kPanel; column < (panel + 1) * kPanel; ++column) {
        for (std::int64_t k = 0; k < kS8Group; ++k) {
          const std::int64_t input = groups.places[static_cast<std::size_t>(i)] * kS8Group + k;
          *to++ =
              column < groups.outputs && input < groups.inputs ? w[input * groups.outputs + column] : std::int8_t{0};
        }
      }
    }
  }
}

std::int64_t result_rows(const ops::NodeView& view) {
  return view.output(0).elements() / std::max<std::int64_t>(1, view.output(0).shape.back());
}

class SparseLinearS8 final : public Kernel {
 public:
  SparseLinearS8(const ops::NodeView& view, WeightStore& store)
      : signed_data_(view.input(At::data).dtype == DType::i8),
        rows_(result_rows(view)),
        groups_(find_groups(*view.constant(At::weights))),
        multiplier_(vector_multiplier_s8()),
        activation_(plan_activation(view)),
        result_(view, activation_, groups_.panels() * kPanel) {
    const Tensor& weights = *view.constant(At::weights);
    const auto bytes = static_cast<std::int64_t>(groups_.places.size()) * kPanel * kS8Group;
    packed_ = store.find_or_pack(weights, "sparse_linear_s8_v1", bytes, [this](const Tensor& from, std::byte* to) {
      pack_groups(from, groups_, reinterpret_cast<std::int8_t*>(to));
    });
    pairs_fit_ = s8_pairs_fit(reinterpret_cast<const std::int8_t*>(packed_->data.get()), bytes);
    const std::int8_t* w = weights.data<std::int8_t>();
    for (std::int64_t j = 0; j < groups_.outputs; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < groups_.inputs; ++k) sum += w[k * groups_.outputs + j];
      result_.set(view, j, j, sum);
    }
    for (std::size_t i = 0; i + 1 < groups_.starts.size(); ++i)
      most_groups_ = std::max(most_groups_, groups_.starts[i + 1] - groups_.starts[i]);
    constexpr std::int64_t kChunkGroups = 4096;
    const std::int64_t a_panel = static_cast<std::int64_t>(groups_.places.size()) * rows_ / groups_.panels();
    grain_ = std::max<std::int64_t>(1, kChunkGroups / std::max<std::int64_t>(1, a_panel));
  }

  // The data in whole groups, and for each thread's panel the rows gathered at its groups.
  std::int64_t scratch_bytes() const override {
    return base::checked_add(copy_bytes(), base::checked_multiply(groups_.panels(), tile_bytes()));
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    auto* scratch = reinterpret_cast<std::uint8_t*>(context.scratch());
    const auto* x = static_cast<const std::uint8_t*>(context.input(At::data).raw());
    if (copy_bytes() > 0) {
      copy(x, scratch);
      x = scratch;
    }
    const OutputS8 output(context);
    context.parallel_for(groups_.panels(), grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel) {
        std::uint8_t* gathered = scratch + copy_bytes() + panel * tile_bytes();
        for (std::int64_t row = 0; row < rows_; row += multiplier_.tile_rows) multiply(x, gathered, panel, row, output);
      }
    });
  }

 private:
  std::int64_t row_bytes() const { return groups_.row_groups() * kS8Group; }
  std::int64_t copy_bytes() const {
    return signed_data_ || row_bytes() != groups_.inputs ? base::round_up(rows_ * row_bytes(), 64) : 0;
  }
  std::int64_t tile_bytes() const {
    return base::round_up(std::min(rows_, multiplier_.tile_rows) * most_groups_ * kS8Group, 64);
  }

  // Converts signed bytes to unsigned ones; bytes that fill up a group meet zero weights.
  void copy(const std::uint8_t* x, std::uint8_t* to) const {
    const std::uint8_t flipped = signed_data_ ? 0x80 : 0;
    for (std::int64_t i = 0; i < rows_; ++i, x += groups_.inputs, to += row_bytes()) {
      std::transform(x, x + groups_.inputs, to,
                     [flipped](std::uint8_t value) { return static_cast<std::uint8_t>(value ^ flipped); });
      std::fill(to + groups_.inputs, to + row_bytes(), std::uint8_t{0});
    }
  }

  void multiply(const std::uint8_t* x, std::uint8_t* gathered, std::int64_t panel, std::int64_t row,
                const OutputS8& output) const {
    const std::int64_t rows = std::min(multiplier_.tile_rows, rows_ - row), first = groups_.starts[at(panel)],
                       count = groups_.starts[at(panel) + 1] - first, column = panel * kPanel;
    const std::uint8_t* left[kS8Rows] = {};
    for (std::int64_t i = 0; i < rows; ++i) {
      std::uint8_t* to = gathered + i * count * kS8Group;
      left[i] = to;
      const std::uint8_t* from = x + (row + i) * row_bytes();
      for (std::int64_t g = 0; g < count; ++g)
        std::memcpy(to + g * kS8Group, from + groups_.places[at(first + g)] * kS8Group, kS8Group);
    }
    const std::int64_t columns = std::min(kPanel, groups_.outputs - column);
    IndirectProductS8 product{
        .rows = rows,
        .tile_rows = multiplier_.tile_rows,
        .segments = 1,
        .groups = count,
        .left = left,
        .right = reinterpret_cast<const std::int8_t*>(packed_->data.get()) + first * kPanel * kS8Group,
        .panel_groups = count,
        .columns = columns,
        .pairs_fit = pairs_fit_,
        .ldc = groups_.outputs};
    product.start = result_.start() + column;
    product.factor = result_.factor() + column;
    product.offset = result_.offset() + column;
    product.low = result_.low();
    product.high = result_.high();
    product.zero = result_.zero();
    const std::int64_t offset = row * groups_.outputs + column;
    if (output.real != nullptr) product.real = output.real + offset;
    else product.quantised = output.quantised + offset;
    if (output.addend != nullptr) product.addend = output.addend + offset;
    product.sum = result_.sum();
    multiplier_.multiply(product);
    if (activation_.after.function == nullptr) return;
    for (std::int64_t i = 0; i < rows; ++i) activation_.after(product.real + i * groups_.outputs, columns);
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  bool signed_data_;
  std::int64_t rows_;
  SparseGroups groups_;
  MultiplierS8 multiplier_;
  ActivationPlan activation_;
  ResultS8 result_;
  bool pairs_fit_ = false;
  std::int64_t most_groups_ = 1, grain_ = 1;
  std::shared_ptr<const PackedWeights> packed_;
};

}  // namespace

std::string reject_sparse_linear_s8(const ops::NodeView& view) {
  if (std::string reason = reject_varying_operands_s8(view); !reason.empty()) return reason;
  const Tensor* weights = view.constant(At::weights);
  if (weights == nullptr || weights->rank() != 2 || !weights->has_data() || weights->is_deferred())
    return "the weights are no constant matrix";
  // Samples some of the weights before all are counted.
  constexpr std::int64_t kSeen = 1024, kLeastWeights = 128 * 128;
  if (weights->elements() < kLeastWeights) return "few weights";
  const auto values = weights->values<std::int8_t>();
  const auto step = static_cast<std::size_t>(weights->elements() / kSeen) | 1;
  std::int64_t zeros = 0, seen = 0;
  for (std::size_t i = 0; i < values.size(); i += step, ++seen) zeros += values[i] == 0;
  return 2 * zeros >= seen ? "" : "the weights are dense";
}

// Costs are counted in groups of a panel: a dense product reads its groups contiguously, and multiplies many rows by
// tiles if the machine has them; the sparse one gathers each group for each row.
std::string avoid_sparse_linear_s8(const ops::NodeView& view) {
  const SparseGroups groups = find_groups(*view.constant(At::weights));
  const std::int64_t rows = result_rows(view);
  const bool tiles = active_tiles() && rows >= kFewestTileRows;
  const double a_group = 1.3, a_panel = 150, dense = tiles ? 0.2 : 0.8;
  const double taken =
                   a_group * static_cast<double>(groups.places.size()) + a_panel * static_cast<double>(groups.panels()),
               all = dense * static_cast<double>(groups.panels() * groups.row_groups());
  return taken > all ? "too few blocks of weights are zero" : "";
}

KernelPointer make_sparse_linear_s8(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<SparseLinearS8>(view, weights);
}

}  // namespace tessera::backends::cpu
