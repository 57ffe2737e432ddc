// MatMul, TransposedMatMul and Gemm in float32.
#include <algorithm>

#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/matmul_geometry.h"
#include "backends/cpu/products/small_product_f32.h"
#include "ops/symbols.h"

namespace tessera::backends::cpu {
namespace {

bool flag(const ops::NodeView& view, const std::string& name) {
  return ops::states_attribute(view.node(), name) && view.integer(name) != 0;
}

class MatMul final : public Kernel {
 public:
  // A vector operand is not swapped by TransposedMatMul.
  MatMul(const ops::NodeView& view, WeightStore& store)
      : transposed_left_(flag(view, "transA") && view.input(0).shape.size() > 1),
        transposed_right_(flag(view, "transB") && view.input(1).shape.size() > 1),
        geometry_(matmul_geometry(view.input(0).shape, view.input(1).shape, transposed_left_, transposed_right_)),
        gemm_(geometry_.shape, view.constant(0) != nullptr && geometry_.left_offsets.size() == 1,
              view.constant(1) != nullptr) {
    const auto [m, n, k] = geometry_.shape;
    const bool of_itself = view.node().inputs[0] == view.node().inputs[1] && !transposed_left_ && transposed_right_;
    small_ = {m, n, k, transposed_left_, transposed_right_, of_itself};
    is_small_ = view.constant(1) == nullptr && geometry_.left_offsets.size() > 1 && gemm_.split(4).tiles() == 1 &&
                small_product_fits(small_);
    if (const Tensor* constant = view.constant(1)) {
      right_ = gemm_f32_packed_right(store, *constant, right(nullptr), k, n, geometry_.right_matrices, k * n,
                                     transposed_right_ ? "transposed" : "plain");
    }
    if (const Tensor* constant = view.constant(0); constant != nullptr && geometry_.left_offsets.size() == 1) {
      left_ =
          gemm_f32_packed_left(store, *constant, left(nullptr), m, k, 1, 0, transposed_left_ ? "transposed" : "plain");
    }
  }

  void run(KernelContext& context) const override {
    const auto [m, n, k] = geometry_.shape;
    const float* a = left_ != nullptr ? nullptr : context.input(0).data<float>();
    const float* b = right_ != nullptr ? nullptr : context.input(1).data<float>();
    float* c = context.output(0).mutable_data<float>();
    const GemmF32::Split split = gemm_.split(context);
    const std::int64_t tiles = is_small_ ? 1 : split.tiles();
    if (tiles == 0) return;
    const std::int64_t packed_floats = gemm_f32_right_bytes(k, n) / 4;
    const auto batches = static_cast<std::int64_t>(geometry_.left_offsets.size());
    // Small products are handed out several per chunk.
    const double tile_operations =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / static_cast<double>(tiles);
    const auto grain = static_cast<std::int64_t>(std::clamp(1e6 / std::max(tile_operations, 1.0), 1.0, 1024.0));
    context.parallel_for(batches * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto batch = static_cast<std::size_t>(i / tiles);
        if (is_small_) {
          small_product(small_, a + geometry_.left_offsets[batch], b + geometry_.right_offsets[batch],
                        c + static_cast<std::int64_t>(batch) * m * n);
          continue;
        }
        const std::int64_t right_matrix = k * n == 0 ? 0 : geometry_.right_offsets[batch] / (k * n);
        const GemmOperand left_operand = left_ != nullptr
                                             ? GemmOperand::prepacked(reinterpret_cast<const float*>(left_->data.get()))
                                             : left(a + geometry_.left_offsets[batch]);
        const GemmOperand right_operand =
            right_ != nullptr ? GemmOperand::prepacked(reinterpret_cast<const float*>(right_->data.get()) +
                                                       right_matrix * packed_floats)
                              : right(b + geometry_.right_offsets[batch]);
        gemm_.run(split, i % tiles, left_operand, right_operand, c + static_cast<std::int64_t>(batch) * m * n, n, {});
      }
    });
  }

 private:
  GemmOperand left(const float* data) const {
    return transposed_left_ ? GemmOperand::strided(data, 1, geometry_.shape.m)
                            : GemmOperand::strided(data, geometry_.shape.k, 1);
  }
  GemmOperand right(const float* data) const {
    return transposed_right_ ? GemmOperand::strided(data, 1, geometry_.shape.k)
                             : GemmOperand::strided(data, geometry_.shape.n, 1);
  }

  bool transposed_left_, transposed_right_;
  MatMulGeometry geometry_;
  GemmF32 gemm_;
  SmallProduct small_;
  bool is_small_;  // a batch of products small enough for small_product()
  std::shared_ptr<const PackedWeights> left_, right_;
};

// Y = alpha · A' · B' + beta · C, with A' and B' optionally transposed, C broadcast to Y (ONNX Gemm 13).
class Gemm final : public Kernel {
 public:
  Gemm(const ops::NodeView& view, WeightStore& store)
      : transposed_left_(view.integer("transA") != 0),
        transposed_right_(view.integer("transB") != 0),
        shape_(shape_of(view, transposed_left_)),
        gemm_(shape_, view.constant(0) != nullptr, view.constant(1) != nullptr),
        alpha_(view.real("alpha")),
        beta_(view.real("beta")) {
    if (const Tensor* a = view.constant(0)) {
      left_ = gemm_f32_packed_left(store, *a, left(nullptr), shape_.m, shape_.k, 1, 0,
                                   transposed_left_ ? "transposed" : "plain");
    }
    if (const Tensor* b = view.constant(1)) {
      right_ = gemm_f32_packed_right(store, *b, right(nullptr), shape_.k, shape_.n, 1, 0,
                                     transposed_right_ ? "transposed" : "plain");
    }
  }

  void run(KernelContext& context) const override {
    Epilogue epilogue{.scale = alpha_};
    if (context.has_input(2)) {
      const Shape& shape = context.input(2).shape();
      const std::int64_t rows = shape.size() == 2 ? shape[0] : 1, columns = shape.empty() ? 1 : shape.back();
      epilogue.addend = context.input(2).data<float>();
      epilogue.addend_scale = beta_;
      epilogue.addend_row_stride = rows == 1 ? 0 : columns;
      epilogue.addend_column_stride = columns == 1 ? 0 : 1;
    }
    const GemmOperand a = left_ ? GemmOperand::prepacked(reinterpret_cast<const float*>(left_->data.get()))
                                : left(context.input(0).data<float>());
    const GemmOperand b = right_ ? GemmOperand::prepacked(reinterpret_cast<const float*>(right_->data.get()))
                                 : right(context.input(1).data<float>());
    gemm_f32(context, gemm_, a, b, context.output(0).mutable_data<float>(), shape_.n, epilogue);
  }

 private:
  static GemmShape shape_of(const ops::NodeView& view, bool transposed_left) {
    const Shape& a = view.input(0).shape;
    const Shape& y = view.output(0).shape;
    return {y[0], y[1], transposed_left ? a[0] : a[1]};
  }
  GemmOperand left(const float* a) const {
    return transposed_left_ ? GemmOperand::strided(a, 1, shape_.m) : GemmOperand::strided(a, shape_.k, 1);
  }
  GemmOperand right(const float* b) const {
    return transposed_right_ ? GemmOperand::strided(b, 1, shape_.k) : GemmOperand::strided(b, shape_.n, 1);
  }

  bool transposed_left_, transposed_right_;
  GemmShape shape_;
  GemmF32 gemm_;
  float alpha_, beta_;
  std::shared_ptr<const PackedWeights> left_, right_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<MatMul>(view, weights);
}
std::unique_ptr<Kernel> make_gemm_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Gemm>(view, weights);
}

}  // namespace tessera::backends::cpu
