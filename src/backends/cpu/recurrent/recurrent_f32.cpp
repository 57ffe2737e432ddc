// LSTM and GRU in float32.
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

  Float32Products(const ops::NodeView& view, WeightStore& store, const RecurrentLayer& layer)
      : layer_(layer),
        projection_({layer.steps(), layer.rows(), layer.features}, false, true),
        w_(pack(store, *view.constant(1), layer.features, "recurrent_w", 1)),
        r_(pack(store, *view.constant(2), layer.hidden, "recurrent_r", layer.chunks())) {
    for (std::int64_t chunk = 0; chunk < layer.chunks(); ++chunk) {
      steps_.emplace_back(GemmShape{layer.batch, layer.gates * layer.units_of(chunk), layer.hidden}, false, true);
    }
  }

  std::int64_t scratch_bytes() const { return 0; }
  std::int64_t hidden_stride() const { return layer_.hidden; }
  const float* data(KernelContext& context, std::byte*) const { return context.input(0).data<float>(); }

  void project(KernelContext& context, const float* x, std::int64_t direction, const float* bias, float* to) const {
    gemm_f32(context, projection_, GemmOperand::strided(x, layer_.features, 1),
             packed(*w_, direction * gemm_f32_right_bytes(layer_.features, layer_.rows())), to, layer_.rows(),
             {.addend = bias, .addend_column_stride = 1});
  }

  void recur(std::int64_t direction, std::int64_t chunk, const float* hidden, float* to) const {
    const GemmF32& gemm = steps_[static_cast<std::size_t>(chunk)];
    const GemmOperand right = packed(
        *r_, (direction * layer_.chunks() + chunk) * gemm_f32_right_bytes(layer_.hidden, layer_.gates * layer_.units));
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
  static GemmOperand packed(const PackedWeights& weights, std::int64_t offset) {
    return GemmOperand::prepacked(reinterpret_cast<const float*>(weights.data.get() + offset));
  }

  // [directions, rows, columns] as right operands [columns, rows in chunk order], whole or one a chunk.
  std::shared_ptr<const PackedWeights> pack(WeightStore& store, const Tensor& weights, std::int64_t columns,
                                            std::string_view name, std::int64_t parts) const {
    const std::string key = fmt::format("{}_v3:{}:{}:{}", name, gemm_f32_isa().name, layer_.hidden, layer_.units);
    const std::int64_t part_rows = parts == 1 ? layer_.rows() : layer_.gates * layer_.units;
    const std::int64_t bytes = gemm_f32_right_bytes(columns, part_rows);
    return store.find_or_pack(
        weights, key, base::checked_multiply(bytes, parts * layer_.directions),
        [&](const Tensor& contents, std::byte* to) {
          std::vector<float> reordered(static_cast<std::size_t>(base::checked_multiply(layer_.rows(), columns)));
          for (std::int64_t direction = 0; direction < layer_.directions; ++direction) {
            layer_.reorder(contents.data<float>() + direction * layer_.rows() * columns, columns, reordered.data(),
                           columns);
            for (std::int64_t part = 0; part < parts; ++part) {
              const std::int64_t rows = std::min(part_rows, layer_.rows() - part * part_rows);
              gemm_f32_pack_right(GemmOperand::strided(reordered.data() + part * part_rows * columns, 1, columns),
                                  columns, rows, reinterpret_cast<float*>(to + (direction * parts + part) * bytes));
            }
          }
        });
  }

  RecurrentLayer layer_;
  GemmF32 projection_;
  std::shared_ptr<const PackedWeights> w_, r_;
  std::vector<GemmF32> steps_;  // one a chunk
};

// Why no kernel here takes the layer, whatever its elements are.
std::string reject_any(const ops::NodeView& view) {
  const ops::RecurrentPlan plan = ops::read_recurrent(view);
  const bool lstm = view.op().name == "LSTM";
  if (plan.batch_first) return "layout 1";
  if (std::isfinite(plan.clip)) return "clip";
  for (std::size_t i = 0; i < plan.activations.size(); ++i) {
    const std::size_t of_direction = i % (lstm ? 3 : 2);
    if (plan.activations[i].kind != (of_direction == 0 ? ops::Activation::sigmoid : ops::Activation::tanh))
      return "activations other than the default";
  }
  if (lstm && view.integer("input_forget") != 0) return "input_forget";
  if (!lstm && view.integer("linear_before_reset") == 0) return "the reset gate applied before the product";
  if (view.has_input(4)) return "sequence_lens";
  if (view.has_input(7)) return "peepholes";
  if (view.constant(1) == nullptr || view.constant(2) == nullptr) return "weights that are not constant";
  for (const std::size_t i : {0, 1, 2}) {
    if (view.input(i).elements() == 0) return "empty operands";
  }
  return "";
}

}  // namespace

std::string reject_recurrent_f32(const ops::NodeView& view) {
  const std::string reason = reject_unless_f32(view);
  return reason.empty() ? reject_any(view) : reason;
}

std::string reject_recurrent_bf16(const ops::NodeView& view) {
  return view.input(0).dtype == DType::bf16 ? reject_any(view) : "data other than bf16";
}

KernelPointer make_recurrent_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Recurrent<Float32Products>>(view, weights);
}

}  // namespace tessera::backends::cpu
