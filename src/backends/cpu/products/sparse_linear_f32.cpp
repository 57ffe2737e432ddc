// The product of rows with constant weights that are mostly zero, in float32: Linear, MatMul and Gemm.
#include <algorithm>
#include <limits>

#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/sparse_panels_f32.h"
#include "backends/cpu/products/sparse_weights.h"

namespace tessera::backends::cpu {
namespace {

bool is_transposed(const ops::NodeView& view) {
  return view.node().op != "MatMul" && view.integer("transB") != 0;
}

WeightMatrix matrix_of(const Tensor& weights, bool transposed) {
  const Shape& shape = weights.shape();
  WeightMatrix matrix{weights.data<float>(), shape[0], shape[1], shape[1], 1};
  if (!transposed) return matrix;
  std::swap(matrix.inputs, matrix.outputs);
  std::swap(matrix.input_stride, matrix.output_stride);
  return matrix;
}

std::int64_t rows_of(const ops::NodeView& view) {
  return view.output(0).elements() / std::max<std::int64_t>(1, view.output(0).shape.back());
}

SparseForm form_for(const ops::NodeView& view) {
  const WeightMatrix matrix = matrix_of(*view.constant(1), is_transposed(view));
  return choose_form(count_sparse(matrix, sparse_functions().lanes), rows_of(view), sparse_functions().lanes);
}

class SparseLinear final : public Kernel {
 public:
  SparseLinear(const ops::NodeView& view, WeightStore& store) : functions_(sparse_functions()) {
    const Tensor& weights = *view.constant(1);
    const bool transposed = is_transposed(view);
    const WeightMatrix matrix = matrix_of(weights, transposed);
    SparseForm form = form_for(view);
    if (form == SparseForm::dense) form = SparseForm::segments;  // asked for by a measurement
    where_ = find_weights(matrix, form, functions_.lanes);
    rows_ = rows_of(view);
    if (view.node().op == "tessera::Linear") activation_ = plan_activation(view);
    if (view.node().op == "Gemm") {
      scale_ = view.real("alpha");
      addend_scale_ = view.real("beta");
    }
    const std::string name = fmt::format("sparse_linear_f32_v1:{}:{}:{}", static_cast<int>(form), where_.lanes,
                                         transposed ? "transposed" : "plain");
    packed_ = store.find_or_pack(weights, name, std::max<std::int64_t>(where_.floats, 1) * 4,
                                 [&](const Tensor& from, std::byte* to) {
                                   pack_values(matrix_of(from, transposed), where_, reinterpret_cast<float*>(to));
                                 });
    constexpr std::int64_t kChunkFloats = 32 * 1024;
    const std::int64_t floats_a_panel = std::max<std::int64_t>(1, where_.floats / where_.panels());
    grain_ = std::max<std::int64_t>(1, kChunkFloats / floats_a_panel);
  }

  // Data in whole segments.
  std::int64_t scratch_bytes() const override { return needs_copy() ? rows_ * padded_inputs() * 4 : 0; }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float* x = context.input(0).data<float>();
    std::int64_t row_stride = where_.inputs;
    if (needs_copy()) {
      auto* copy = reinterpret_cast<float*>(context.scratch());
      row_stride = padded_inputs();
      for (std::int64_t i = 0; i < rows_; ++i) {
        std::copy_n(x + i * where_.inputs, where_.inputs, copy + i * row_stride);
        std::fill(copy + i * row_stride + where_.inputs, copy + (i + 1) * row_stride, 0.0f);
      }
      x = copy;
    }
    context.parallel_for(where_.panels(), grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel) {
        for (std::int64_t row = 0; row < rows_; row += kMostSparseRows)
          run_panel(context, x + row * row_stride, row_stride, panel, row);
      }
    });
  }

 private:
  bool needs_copy() const { return where_.form != SparseForm::blocks && where_.inputs % kSegment != 0; }
  std::int64_t padded_inputs() const { return (where_.inputs + kSegment - 1) / kSegment * kSegment; }

  void run_panel(KernelContext& context, const float* x, std::int64_t row_stride, std::int64_t panel,
                 std::int64_t row) const {
    const auto at = static_cast<std::size_t>(panel);
    const std::int64_t rows = std::min<std::int64_t>(kMostSparseRows, rows_ - row);
    const auto by_rows = static_cast<std::size_t>(rows - 1);
    float sums[kMostSparseRows * kMostSparseLanes];
    SparsePanel given{x, row_stride, reinterpret_cast<const float*>(packed_->data.get()) + where_.value_starts[at]};
    given.sums = sums;
    switch (where_.form) {
      case SparseForm::blocks:
        given.places = where_.places.data() + where_.place_starts[at];
        given.count = where_.place_starts[at + 1] - where_.place_starts[at];
        functions_.blocks[by_rows](given);
        break;
      case SparseForm::two_of_four:
        given.count = padded_inputs() / kSegment;
        given.places = where_.words.data() + panel * given.count * where_.lanes;
        functions_.two_of_four[by_rows](given);
        break;
      default:
        given.count = padded_inputs() / kSegment;
        given.slots = where_.slots.data() + panel * given.count;
        given.bytes = where_.bytes.data() + where_.byte_starts[at];
        functions_.segments[by_rows](given);
    }
    store(context, sums, panel * where_.lanes, row, rows);
  }

  void store(KernelContext& context, const float* sums, std::int64_t first, std::int64_t row, std::int64_t rows) const {
    const std::int64_t columns = std::min<std::int64_t>(where_.lanes, where_.outputs - first);
    const bool gemm = context.node().op == "Gemm";
    const bool linear = context.node().op == "tessera::Linear";
    const float* bias = linear && context.has_input(2) ? context.input(2).data<float>() + first : nullptr;
    const float* addend = linear && context.has_input(3) ? context.input(3).data<float>() : nullptr;
    std::int64_t addend_row = where_.outputs, addend_column = 1;
    if (gemm && context.has_input(2)) {
      const Shape& shape = context.input(2).shape();
      addend = context.input(2).data<float>();
      const std::int64_t size = shape.empty() ? 1 : shape.back();
      addend_row = shape.size() == 2 && shape[0] != 1 ? size : 0;
      addend_column = size == 1 ? 0 : 1;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      float* line = context.output(0).mutable_data<float>() + (row + i) * where_.outputs + first;
      for (std::int64_t j = 0; j < columns; ++j) {
        float value = scale_ * sums[i * kMostSparseLanes + j] + (bias != nullptr ? bias[j] : 0.0f);
        if (addend != nullptr) value += addend_scale_ * addend[(row + i) * addend_row + (first + j) * addend_column];
        // NaN stays.
        if (value < activation_.low) value = activation_.low;
        if (value > activation_.high) value = activation_.high;
        line[j] = value;
      }
      if (activation_.after.function != nullptr) activation_.after(line, columns);
    }
  }

  SparseFunctions functions_;
  SparseWeights where_;
  ActivationPlan activation_;
  std::int64_t rows_ = 0, grain_ = 1;
  float scale_ = 1, addend_scale_ = 1;
  std::shared_ptr<const PackedWeights> packed_;
};

}  // namespace

std::string reject_sparse_linear_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  const Tensor* weights = view.constant(1);
  if (weights == nullptr) return "the weights are no constant";
  if (weights->rank() != 2) return "the weights are no matrix";
  if (!weights->has_data() || weights->is_deferred()) return "the weights are computed when they are first read";
  if (view.node().op == "Gemm" && view.integer("transA") != 0) return "the data are transposed";
  if (view.node().op == "tessera::Linear") {
    if (view.has_attribute("precision")) return "asks for bf16";
    if (std::string reason = reject_activation(view); !reason.empty()) return reason;
  }
  return may_be_sparse(matrix_of(*weights, is_transposed(view))) ? "" : "the weights are dense";
}

std::string avoid_sparse_linear_f32(const ops::NodeView& view) {
  return form_for(view) == SparseForm::dense ? "too few weights are zero" : "";
}

KernelPointer make_sparse_linear_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<SparseLinear>(view, weights);
}

}  // namespace tessera::backends::cpu
