// LSTM, GRU and RNN in float32.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/gemm_f32_isa.h"
#include "backends/cpu/recurrent/kernels.h"
#include "backends/cpu/recurrent/recurrent_layer.h"

namespace tessera::backends::cpu {
namespace {

class Float32Products {
 public:
  using Element = float;
  static constexpr std::int64_t kWeightBytes = 4;

  Float32Products(const ops::NodeView& view, WeightStore& store, const RecurrentLayer& layer)
      : layer_(layer), projection_({layer.steps(), layer.rows(), layer.features}, false, true) {
    if (view.constant(1) != nullptr) w_ = pack(store, *view.constant(1), w_operand());
    if (view.constant(2) != nullptr) r_ = pack(store, *view.constant(2), r_operand());
    for (std::int64_t chunk = 0; chunk < layer.chunks(); ++chunk) {
      const std::int64_t units = layer.units_of(chunk), apart = layer.resets_first ? 1 : 0;
      steps_.emplace_back(GemmShape{layer.batch, (layer.gates - apart) * units, layer.hidden}, false, true);
      if (layer.resets_first) candidates_.emplace_back(GemmShape{layer.batch, units, layer.hidden}, false, true);
    }
  }

  std::int64_t scratch_bytes() const {
    return base::checked_add(w_ != nullptr ? 0 : scratch_of(w_operand()), r_ != nullptr ? 0 : scratch_of(r_operand()));
  }
  std::int64_t hidden_stride() const { return layer_.hidden; }
  const float* data(KernelContext& context, std::byte*) const { return context.input(0).data<float>(); }

  RecurrentWeights weights(KernelContext& context, std::byte* scratch) const {
    RecurrentWeights result{w_ == nullptr ? nullptr : w_->data.get(), r_ == nullptr ? nullptr : r_->data.get()};
    if (w_ == nullptr) {
      pack_now(context, context.input(1), w_operand(), scratch);
      result.w = scratch;
      scratch += scratch_of(w_operand());
    }
    if (r_ == nullptr) {
      pack_now(context, context.input(2), r_operand(), scratch);
      result.r = scratch;
    }
    return result;
  }

  void project(KernelContext& context, const std::byte* w, const float* x, std::int64_t direction, const float* bias,
               float* to) const {
    gemm_f32(context, projection_, GemmOperand::strided(x, layer_.features, 1),
             packed(w, direction * gemm_f32_right_bytes(layer_.features, layer_.rows())), to, layer_.rows(),
             {.addend = bias, .addend_column_stride = 1});
  }

  void recur(const std::byte* r, std::int64_t direction, std::int64_t chunk, RecurrentPart part, const float* hidden,
             float* to) const {
    const bool last = part == RecurrentPart::candidate;
    const GemmF32& gemm = (last ? candidates_ : steps_)[static_cast<std::size_t>(chunk)];
    const Operand operand = r_operand();
    const GemmOperand right = packed(r, (direction * layer_.chunks() + chunk) * operand.part_bytes +
                                            (last ? gemm_f32_right_bytes(layer_.hidden, operand.first_rows) : 0));
    const GemmF32::Split split = gemm.split(1);
    for (std::int64_t tile = 0; tile < split.tiles(); ++tile) {
      gemm.run(split, tile, GemmOperand::strided(hidden, layer_.hidden, 1), right, to, gemm.shape().n, {});
    }
  }

  static void widen(const float* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * 4);
  }
  static void round(const float* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * 4);
  }

 private:
  // W or R, [directions, rows, columns], as right operands [columns, rows in chunk order]: W as a whole, R per chunk,
  // or in two parts per chunk if a step multiplies these separately.
  struct Operand {
    std::string_view name;
    std::int64_t columns, parts, part_rows, first_rows, part_bytes;
  };
  Operand operand(std::string_view name, std::int64_t columns, std::int64_t parts) const {
    const std::int64_t part_rows = parts == 1 ? layer_.rows() : layer_.gates * layer_.units;
    return {name, columns, parts, part_rows, part_rows, gemm_f32_right_bytes(columns, part_rows)};
  }
  Operand w_operand() const { return operand("recurrent_w", layer_.features, 1); }
  Operand r_operand() const {
    if (!layer_.resets_first) return operand("recurrent_r", layer_.hidden, layer_.chunks());
    const std::int64_t units = layer_.units, hidden = layer_.hidden;
    return {"recurrent_r_apart",
            hidden,
            layer_.chunks(),
            3 * units,
            2 * units,
            base::checked_add(gemm_f32_right_bytes(hidden, 2 * units), gemm_f32_right_bytes(hidden, units))};
  }

  static GemmOperand packed(const std::byte* weights, std::int64_t offset) {
    return GemmOperand::prepacked(reinterpret_cast<const float*>(weights + offset));
  }
  std::int64_t packed_bytes(const Operand& operand) const {
    return base::round_up(base::checked_multiply(operand.part_bytes, operand.parts * layer_.directions), 64);
  }
  // Bytes for the packed operand, and for one direction in chunk order if that differs from the order of rows.
  std::int64_t scratch_of(const Operand& operand) const {
    const std::int64_t rows = layer_.chunks() == 1 ? 0 : layer_.directions * layer_.rows();
    return base::checked_add(packed_bytes(operand),
                             base::round_up(base::checked_multiply(rows, operand.columns * 4), 64));
  }

  void pack_part(const Operand& operand, const float* rows, std::int64_t direction, std::int64_t part,
                 std::byte* to) const {
    const std::int64_t count = std::min(operand.part_rows, layer_.rows() - part * operand.part_rows),
                       first = count * operand.first_rows / operand.part_rows;
    rows += part * operand.part_rows * operand.columns;
    to += (direction * operand.parts + part) * operand.part_bytes;
    const auto pack_rows = [&](std::int64_t begin, std::int64_t end, std::byte* at) {
      gemm_f32_pack_right(GemmOperand::strided(rows + begin * operand.columns, 1, operand.columns), operand.columns,
                          end - begin, reinterpret_cast<float*>(at));
    };
    pack_rows(0, first, to);
    if (first < count) pack_rows(first, count, to + gemm_f32_right_bytes(operand.columns, operand.first_rows));
  }

  std::shared_ptr<const PackedWeights> pack(WeightStore& store, const Tensor& weights, const Operand& operand) const {
    const std::string key =
        fmt::format("{}_v3:{}:{}:{}", operand.name, gemm_f32_isa().name, layer_.hidden, layer_.units);
    return store.find_or_pack(weights, key,
                              base::checked_multiply(operand.part_bytes, operand.parts * layer_.directions),
                              [&](const Tensor& contents, std::byte* to) {
                                std::vector<float> reordered(
                                    static_cast<std::size_t>(base::checked_multiply(layer_.rows(), operand.columns)));
                                for (std::int64_t direction = 0; direction < layer_.directions; ++direction) {
                                  layer_.reorder(contents.data<float>() + direction * layer_.rows() * operand.columns,
                                                 operand.columns, reordered.data(), operand.columns);
                                  for (std::int64_t part = 0; part < operand.parts; ++part)
                                    pack_part(operand, reordered.data(), direction, part, to);
                                }
                              });
  }

  // Packs weights that may change, in every run.
  void pack_now(const KernelContext& context, const Tensor& weights, const Operand& operand, std::byte* to) const {
    const std::int64_t matrix = layer_.rows() * operand.columns;
    const float* from = weights.data<float>();
    if (layer_.chunks() > 1) {
      auto* reordered = reinterpret_cast<float*>(to + packed_bytes(operand));
      context.parallel_for(layer_.directions, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t d = begin; d < end; ++d)
          layer_.reorder(from + d * matrix, operand.columns, reordered + d * matrix, operand.columns);
      });
      from = reordered;
    }
    context.parallel_for(layer_.directions * operand.parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        pack_part(operand, from + i / operand.parts * matrix, i / operand.parts, i % operand.parts, to);
    });
  }

  RecurrentLayer layer_;
  GemmF32 projection_;
  std::shared_ptr<const PackedWeights> w_, r_;  // null if the weights are not constants
  std::vector<GemmF32> steps_, candidates_;     // one per chunk
};

// Returns why the layer is not supported in training (values kept for the backward pass, and that pass), or "".
std::string reject_training(const ops::NodeView& view) {
  const ops::RecurrentPlan plan = ops::read_recurrent(view);
  const std::int64_t gates = ops::gates_of(view.op());
  if (plan.batch_first) return "layout 1 in training";
  const bool relu = gates == 1 && std::all_of(plan.activations.begin(), plan.activations.end(), [](const auto& each) {
                      return each.kind == ops::GateActivationKind::relu;
                    });
  if (gates == 4 && view.has_input(7)) return "peepholes in training";
  if (!relu && !gate_functions(plan, view).empty()) return "gates other than the default in training";
  if (std::isfinite(plan.clip)) return "clip in training";
  if (gates == 3 && view.integer("linear_before_reset") == 0)
    return "the reset gate applied before the product in training";
  return view.has_input(4) ? "sequence_lens in training" : "";
}

// Returns why no kernel here takes the layer, whatever its element type, or "".
std::string reject_any(const ops::NodeView& view) {
  for (const std::size_t i : {0, 1, 2}) {
    if (view.input(i).elements() == 0) return "empty operands";
  }
  return view.op().name.starts_with("tessera::") ? reject_training(view) : "";
}

}  // namespace

std::string reject_recurrent_f32(const ops::NodeView& view) {
  const std::string reason = reject_unless_f32(view);
  return reason.empty() ? reject_any(view) : reason;
}

std::string reject_recurrent_bf16(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::bf16) return "data other than bf16";
  if (view.constant(1) == nullptr || view.constant(2) == nullptr) return "weights that are not constant";
  if (ops::gates_of(view.op()) == 3 && view.integer("linear_before_reset") == 0)
    return "the reset gate applied before the product";
  return reject_any(view);
}

KernelPointer make_recurrent_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Recurrent<Float32Products>>(view, weights);
}

}  // namespace tessera::backends::cpu
