// Product of rows with constant weights that are mostly zero: Linear, MatMul and Gemm in float32, and Linear with data
// and weights rounded to bfloat16 (ops/products/rounded_product.h), which also has float32 sums.
#include <algorithm>
#include <limits>

#include "backends/cpu/element_wise/rounding_bf16.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/sparse/sparse_panels.h"
#include "backends/cpu/products/sparse/sparse_weights.h"
#include "base/numbers/half.h"
#include "ops/products/linear.h"

namespace tessera::backends::cpu {
namespace {

bool is_transposed(const ops::NodeView& view) {
  return view.op().name != "MatMul" && view.integer("transB") != 0;
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

bool asks_for_bf16(const ops::NodeView& view) {
  return view.op().name == "tessera::Linear" && view.has_attribute("precision");
}

SparseForm form_for(const ops::NodeView& view) {
  const WeightMatrix matrix = matrix_of(*view.constant(1), is_transposed(view));
  const int lanes = sparse_functions().lanes;
  return choose_form(count_sparse(matrix, lanes), rows_of(view), lanes, asks_for_bf16(view));
}

// Element i of a tensor of float32 or bfloat16.
float element(const Tensor& tensor, std::int64_t i) {
  return tensor.dtype() == DType::bf16 ? base::to_float(tensor.data<bf16_t>()[i]) : tensor.data<float>()[i];
}

class SparseLinear final : public Kernel {
 public:
  SparseLinear(const ops::NodeView& view, WeightStore& store)
      : bf16_(asks_for_bf16(view)), functions_(sparse_functions(bf16_)) {
    const Tensor& weights = *view.constant(1);
    const bool transposed = is_transposed(view);
    const WeightMatrix matrix = matrix_of(weights, transposed);
    SparseForm form = form_for(view);
    if (form == SparseForm::dense) form = SparseForm::segments;  // requested by a measurement
    where_ = find_weights(matrix, form, functions_.lanes);
    rows_ = rows_of(view);
    if (view.op().name == "tessera::Linear") activation_ = plan_activation(view);
    if (view.op().name == "Gemm") {
      scale_ = view.real("alpha");
      addend_scale_ = view.real("beta");
    }
    pack(weights, transposed, store);
    constexpr std::int64_t kChunkFloats = 32 * 1024;
    const std::int64_t floats_a_panel = std::max<std::int64_t>(1, where_.floats / where_.panels());
    grain_ = std::max<std::int64_t>(1, kChunkFloats / floats_a_panel);
  }

  // A copy of the data in whole segments, and a row of rounded data.
  std::int64_t scratch_bytes() const override {
    return (needs_copy() ? rows_ * padded_inputs() * 4 : 0) + (bf16_ ? padded_inputs() * 2 : 0);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const float* x = needs_copy() ? copy_data(context) : context.input(0).data<float>();
    const std::int64_t row_stride = needs_copy() ? padded_inputs() : where_.inputs;
    context.parallel_for(where_.panels(), grain_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel) {
        for (std::int64_t row = 0; row < rows_; row += kMostSparseRows)
          run_panel(context, x + row * row_stride, row_stride, panel, row);
      }
    });
  }

 private:
  void pack(const Tensor& weights, bool transposed, WeightStore& store) {
    const std::string name =
        fmt::format("sparse_linear_{}_v1:{}:{}:{}", bf16_ ? "bf16" : "f32", static_cast<int>(where_.form), where_.lanes,
                    transposed ? "transposed" : "plain");
    const std::int64_t bytes = std::max<std::int64_t>(where_.floats, 1) * value_bytes();
    packed_ = store.find_or_pack(weights, name, bytes, [&](const Tensor& from, std::byte* to) {
      if (!bf16_) return pack_values(matrix_of(from, transposed), where_, reinterpret_cast<float*>(to));
      std::vector<float> values(static_cast<std::size_t>(where_.floats));
      pack_values(matrix_of(from, transposed), where_, values.data());
      to_bf16_row(values.data(), reinterpret_cast<std::uint16_t*>(to), where_.floats);
    });
  }

  // Copies the data as floats in whole segments, rounded to bfloat16 if the layer rounds.
  const float* copy_data(KernelContext& context) const {
    auto* copy = reinterpret_cast<float*>(context.scratch());
    auto* rounded = reinterpret_cast<std::uint16_t*>(copy + rows_ * padded_inputs());
    const Tensor& x = context.input(0);
    for (std::int64_t i = 0; i < rows_; ++i) {
      float* row = copy + i * padded_inputs();
      if (x.dtype() == DType::bf16) {
        from_bf16_row(reinterpret_cast<const std::uint16_t*>(x.raw()) + i * where_.inputs, row, where_.inputs);
      } else if (bf16_) {
        round_to_bf16_row(x.data<float>() + i * where_.inputs, rounded, where_.inputs);
        from_bf16_row(rounded, row, where_.inputs);
      } else {
        std::copy_n(x.data<float>() + i * where_.inputs, where_.inputs, row);
      }
      std::fill(row + where_.inputs, row + padded_inputs(), 0.0f);
    }
    return copy;
  }

  bool needs_copy() const { return bf16_ || (where_.form != SparseForm::blocks && where_.inputs % kSegment != 0); }
  std::int64_t value_bytes() const { return bf16_ ? 2 : 4; }
  std::int64_t padded_inputs() const { return (where_.inputs + kSegment - 1) / kSegment * kSegment; }

  void run_panel(KernelContext& context, const float* x, std::int64_t row_stride, std::int64_t panel,
                 std::int64_t row) const {
    const auto at = static_cast<std::size_t>(panel);
    const std::int64_t rows = std::min<std::int64_t>(kMostSparseRows, rows_ - row);
    const auto by_rows = static_cast<std::size_t>(rows - 1);
    float sums[kMostSparseRows * kMostSparseLanes];
    SparsePanel given{x, row_stride, packed_->data.get() + where_.value_starts[at] * value_bytes()};
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
    const bool gemm = context.op().name == "Gemm";
    const bool linear = context.op().name == "tessera::Linear";
    const float* bias = linear && context.has_input(2) ? context.input(2).data<float>() + first : nullptr;
    const Tensor* addend = linear && context.has_input(3) ? &context.input(3) : nullptr;
    std::int64_t addend_row = where_.outputs, addend_column = 1;
    if (gemm && context.has_input(2)) {
      const Shape& shape = context.input(2).shape();
      addend = &context.input(2);
      const std::int64_t size = shape.empty() ? 1 : shape.back();
      addend_row = shape.size() == 2 && shape[0] != 1 ? size : 0;
      addend_column = size == 1 ? 0 : 1;
    }
    Tensor& y = context.output(0);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = (row + i) * where_.outputs + first;
      float kept[kMostSparseLanes];
      float* line = y.dtype() == DType::bf16 ? kept : y.mutable_data<float>() + at;
      for (std::int64_t j = 0; j < columns; ++j) {
        float value = scale_ * sums[i * kMostSparseLanes + j] + (bias != nullptr ? bias[j] : 0.0f);
        if (addend != nullptr)
          value += addend_scale_ * element(*addend, (row + i) * addend_row + (first + j) * addend_column);
        // NaN stays.
        if (value < activation_.low) value = activation_.low;
        if (value > activation_.high) value = activation_.high;
        line[j] = value;
      }
      if (activation_.after.function != nullptr) activation_.after(line, columns);
      if (line == kept) round_to_bf16_row(kept, static_cast<std::uint16_t*>(y.mutable_raw()) + at, columns);
    }
  }

  bool bf16_;
  SparseFunctions functions_;
  SparseWeights where_;
  ActivationPlan activation_;
  std::int64_t rows_ = 0, grain_ = 1;
  float scale_ = 1, addend_scale_ = 1;
  std::shared_ptr<const PackedWeights> packed_;
};

std::string reject_sparse_weights(const ops::NodeView& view) {
  const Tensor* weights = view.constant(1);
  if (weights == nullptr) return "the weights are no constant";
  if (weights->rank() != 2) return "the weights are no matrix";
  if (!weights->has_data() || weights->is_deferred()) return "the weights are computed when they are first read";
  if (view.op().name == "Gemm" && view.integer("transA") != 0) return "the data are transposed";
  if (view.op().name == "tessera::Linear") {
    if (std::string reason = reject_activation(view); !reason.empty()) return reason;
  }
  const bool known_dense = view.op().name == "tessera::Linear" && view.integer("dense_weights") != 0;
  return !known_dense && ops::may_be_sparse(*weights) ? "" : "the weights are dense";
}

}  // namespace

std::string reject_sparse_linear_f32(const ops::NodeView& view) {
  if (view.op().name == "tessera::Linear" && view.has_attribute("precision")) return "asks for bf16";
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  return reject_sparse_weights(view);
}

std::string reject_sparse_linear_bf16(const ops::NodeView& view) {
  if (!asks_for_bf16(view)) return "does not ask for bf16";
  return view.input(1).dtype == DType::f32 ? reject_sparse_weights(view) : "weights other than f32";
}

std::string avoid_sparse_linear(const ops::NodeView& view) {
  return form_for(view) == SparseForm::dense ? "too few weights are zero" : "";
}

KernelPointer make_sparse_linear(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<SparseLinear>(view, weights);
}

}  // namespace tessera::backends::cpu
