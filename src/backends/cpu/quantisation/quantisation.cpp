// Conversions between float32 and 8-bit integers, with one scale per tensor or per index of an axis. Quotients are
// rounded to float32 and then half to even, as the operators' descriptions say: results are equal to the reference's
// bit for bit.
#include "ops/quantised/quantisation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/element_wise/quantisation_rows.h"
#include "backends/cpu/quantisation/kernels.h"
#include "base/error.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

// Elements per chunk.
constexpr std::int64_t kGrain = 16384;

// The layout of scales on a tensor as [outer, scales, inner]; with one scale: [1, 1, elements].
struct ScaleLayout {
  explicit ScaleLayout(const ops::NodeView& view) {
    const Shape& shape = view.input(0).shape;
    const ops::QuantisationLayout layout =
        ops::quantisation_layout(shape, view.input(1).shape, view.integer("axis"), view.integer("block_size"));
    inner = element_count(shape);
    if (layout.kind == ops::QuantisationLayout::Kind::per_tensor) return;
    const auto axis = static_cast<std::size_t>(layout.axis);
    scales = shape[axis];
    inner = element_count(Shape(shape.begin() + layout.axis + 1, shape.end()));
    outer = element_count(Shape(shape.begin(), shape.begin() + layout.axis));
  }
  std::int64_t outer = 1, scales = 1, inner = 1;
};

// Zero point i of input 2, or 0.
float zero_point(const KernelContext& context, std::int64_t i) {
  if (!context.has_input(2)) return 0;
  const Tensor& zeros = context.input(2);
  if (zeros.dtype() == DType::u8) return zeros.data<std::uint8_t>()[i];
  return zeros.data<std::int8_t>()[i];
}

class QuantiseKernel final : public Kernel {
 public:
  explicit QuantiseKernel(const ops::NodeView& view)
      : functions_(quantisation_rows()), layout_(view), quantises_(view.op().name == "QuantizeLinear") {}

  void run(KernelContext& context) const override {
    if (context.has_input(2)) {
      require(context.input(2).elements() == context.input(1).elements(), ErrorKind::invalid_model,
              "{} zero points for {} scales", context.input(2).elements(), context.input(1).elements());
    }
    const std::int64_t rows = layout_.outer * layout_.scales;
    if (rows == 1) {
      return context.parallel_for(layout_.inner, kGrain, [&](std::int64_t begin, std::int64_t end) {
        convert(context, 0, begin, end - begin);
      });
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, layout_.inner));
    context.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        convert(context, row % layout_.scales, row * layout_.inner, layout_.inner);
      }
    });
  }

 private:
  void convert(KernelContext& context, std::int64_t scale_index, std::int64_t offset, std::int64_t count) const {
    const float scale = context.input(1).data<float>()[scale_index], zero = zero_point(context, scale_index);
    const Tensor& x = context.input(0);
    Tensor& y = context.output(0);
    if (quantises_ && y.dtype() == DType::u8) {
      functions_.to_u8(x.data<float>() + offset, y.mutable_data<std::uint8_t>() + offset, count, scale, zero);
    } else if (quantises_) {
      functions_.to_i8(x.data<float>() + offset, y.mutable_data<std::int8_t>() + offset, count, scale, zero);
    } else if (x.dtype() == DType::u8) {
      functions_.from_u8(x.data<std::uint8_t>() + offset, y.mutable_data<float>() + offset, count, scale, zero);
    } else {
      functions_.from_i8(x.data<std::int8_t>() + offset, y.mutable_data<float>() + offset, count, scale, zero);
    }
  }

  QuantisationRows functions_;
  ScaleLayout layout_;
  bool quantises_;
};

class DynamicQuantiseKernel final : public Kernel {
 public:
  DynamicQuantiseKernel() : functions_(quantisation_rows()) {}

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    const std::int64_t count = context.input(0).elements();
    const Extremes range = range_of(context, x, count);
    const float scale = range.high == range.low ? 1.0f : (range.high - range.low) / 255.0f;
    const float ideal = std::clamp(std::nearbyint(-range.low / scale), 0.0f, 255.0f);
    const float zero = std::isnan(ideal) ? 0.0f : ideal;
    *context.output(1).mutable_data<float>() = scale;
    *context.output(2).mutable_data<std::uint8_t>() = static_cast<std::uint8_t>(zero);
    std::uint8_t* y = context.output(0).mutable_data<std::uint8_t>();
    context.parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      functions_.to_u8(x + begin, y + begin, end - begin, scale, zero);
    });
  }

 private:
  // The result does not depend on the order in which ranges are joined.
  Extremes range_of(const KernelContext& context, const float* x, std::int64_t count) const {
    constexpr std::int64_t kParts = 32;
    std::array<Extremes, kParts> parts;
    const std::int64_t part = std::max(2 * kGrain, (count + kParts - 1) / kParts);
    context.parallel_for(base::ceil_divide(count, part), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        parts[static_cast<std::size_t>(i)] = functions_.extremes(x + i * part, std::min(part, count - i * part));
    });
    Extremes all;
    for (const Extremes& one : parts) all = {std::min(all.low, one.low), std::max(all.high, one.high)};
    return all;
  }

  QuantisationRows functions_;
};

bool is_byte(DType type) {
  return type == DType::u8 || type == DType::i8;
}

}  // namespace

std::string reject_quantisation(const ops::NodeView& view) {
  const bool quantises = view.op().name == "QuantizeLinear";
  const DType real = quantises ? view.input(0).dtype : view.output(0).dtype;
  const DType narrow = quantises ? view.output(0).dtype : view.input(0).dtype;
  if (real != DType::f32 || view.input(1).dtype != DType::f32 || !is_byte(narrow))
    return "converts between f32 and 8-bit integers";
  if (view.integer("block_size") != 0) return "takes one scale a tensor or an index of an axis";
  if (quantises && view.integer("precision") != 0 && view.integer("precision") != static_cast<std::int64_t>(DType::f32))
    return "divides in f32";
  return "";
}

KernelPointer make_quantisation(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<QuantiseKernel>(view);
}

KernelPointer make_dynamic_quantisation(const ops::NodeView&, WeightStore&) {
  return std::make_unique<DynamicQuantiseKernel>();
}

}  // namespace tessera::backends::cpu
