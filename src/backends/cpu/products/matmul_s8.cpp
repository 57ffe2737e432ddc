// MatMulInteger and QLinearMatMul of 8-bit operands whose right operand is one matrix.
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/gemm_s8.h"
#include "backends/cpu/products/kernels.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

// Indices of the operands among the node's inputs.
struct Positions {
  std::size_t a, b, a_zero, b_zero;
};

Positions positions_of(std::string_view op) {
  return op == "MatMulInteger" ? Positions{0, 1, 2, 3} : Positions{0, 3, 2, 5};
}

// The shape of the product of all rows of a batched A with the one B.
S8Shape shape_of(const Shape& a, const Shape& b) {
  const std::int64_t k = a.back();
  std::int64_t m = 1;
  for (std::size_t i = 0; i + 1 < a.size(); ++i) m = base::checked_multiply(m, a[i]);
  return {m, b.size() == 1 ? 1 : b.back(), k};
}

bool is_byte(DType type) {
  return type == DType::u8 || type == DType::i8;
}

class IntegerMatMul final : public Kernel {
 public:
  IntegerMatMul(const ops::NodeView& view, WeightStore& store)
      : at_(positions_of(view.op().name)), shape_(shape_of(view.input(at_.a).shape, view.input(at_.b).shape)) {
    const Tensor* b = view.constant(at_.b);
    if (b == nullptr) return;
    const auto [m, n, k] = shape_;
    weights_ = store.find_or_pack(*b, fmt::format("gemm_s8_right_v3:{}x{}", k, n), gemm_s8_right_bytes(k, n),
                                  [k = k, n = n](const Tensor& weights, std::byte* to) {
                                    gemm_s8_pack_right({weights.raw(), weights.dtype() == DType::i8}, k, n, to);
                                  });
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t left = base::round_up(gemm_s8_left_bytes(shape_.m, shape_.k), 64);
    return weights_ ? left : base::checked_add(left, gemm_s8_right_bytes(shape_.k, shape_.n));
  }

  void run(KernelContext& context) const override {
    const auto operand = [&](std::size_t data, std::size_t zero) {
      const Tensor& tensor = context.input(data);
      S8Operand result{tensor.raw(), tensor.dtype() == DType::i8};
      if (context.has_input(zero)) {
        result.zero_points = context.input(zero).raw();
        result.zero_point_count = context.input(zero).elements();
      }
      return result;
    };
    const S8Operand left = operand(at_.a, at_.a_zero), right = operand(at_.b, at_.b_zero);
    const std::byte* packed = weights_ ? weights_->data.get() : nullptr;
    if (packed == nullptr) {
      std::byte* here = context.scratch() + base::round_up(gemm_s8_left_bytes(shape_.m, shape_.k), 64);
      gemm_s8_pack_right(right, shape_.k, shape_.n, here);
      packed = here;
    }
    S8Output output;
    std::vector<float> factors;
    if (context.op().name == "MatMulInteger") {
      output.sums = context.output(0).mutable_data<std::int32_t>();
    } else {
      const float a_scale = context.input(1).data<float>()[0], y_scale = context.input(6).data<float>()[0];
      for (const float scale : context.input(4).values<float>()) factors.push_back(a_scale * scale / y_scale);
      output.quantised = context.output(0).mutable_raw();
      output.is_signed = context.output(0).dtype() == DType::i8;
      output.factors = factors;
      output.zero_point =
          output.is_signed ? context.input(7).data<std::int8_t>()[0] : context.input(7).data<std::uint8_t>()[0];
    }
    gemm_s8(context, shape_, left, right, packed, context.scratch(), output);
  }

 private:
  Positions at_;
  S8Shape shape_;
  std::shared_ptr<const PackedWeights> weights_;
};

std::string reject_operands(const ops::NodeView& view) {
  const Positions at = positions_of(view.op().name);
  const Shape &a = view.input(at.a).shape, &b = view.input(at.b).shape;
  if (b.size() > 2) return "a batched right operand";
  if (!is_byte(view.input(at.a).dtype) || !is_byte(view.input(at.b).dtype)) return "operands other than u8 and i8";
  if (a.back() > (std::int64_t{1} << 24)) return "sums of more than 2^24 terms";
  const S8Shape shape = shape_of(a, b);
  if (view.has_input(at.a_zero)) {
    const std::int64_t count = view.input(at.a_zero).elements();
    if (count != 1 && (count != shape.m || a.size() > 2)) return "zero points by row of a batched left operand";
  }
  if (view.has_input(at.b_zero)) {
    const std::int64_t count = view.input(at.b_zero).elements();
    if (count != 1 && count != shape.n) return fmt::format("{} zero points for {} columns", count, shape.n);
  }
  return "";
}

}  // namespace

std::string reject_matmul_s8(const ops::NodeView& view) {
  return reject_operands(view);
}

std::string reject_qlinear_matmul_s8(const ops::NodeView& view) {
  if (std::string reason = reject_operands(view); !reason.empty()) return reason;
  if (!is_byte(view.output(0).dtype)) return "an output other than u8 and i8";
  if (view.input(1).dtype != DType::f32)
    return fmt::format("scales of type {}; expected f32", name_of(view.input(1).dtype));
  if (view.input(1).elements() != 1 || view.input(6).elements() != 1 || view.input(7).elements() != 1)
    return "scales by row";
  const std::int64_t scales = view.input(4).elements(),
                     n = view.input(3).shape.size() == 1 ? 1 : view.input(3).shape.back();
  return scales == 1 || scales == n ? "" : fmt::format("{} scales for {} columns", scales, n);
}

KernelPointer make_matmul_s8(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<IntegerMatMul>(view, weights);
}

}  // namespace tessera::backends::cpu
