#include "backends/cuda/quantisation/quantisation.h"

#include <algorithm>

#include "backends/cuda/kernels/quantisation/quantisation_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"
#include "ops/quantised/quantisation.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::kQuantisationThreads;
using tessera::cuda::QuantisationParameters;
using tessera::cuda::ScaleLayout;

bool is_real(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// The types that the kernels quantise to and dequantise from.
bool is_quantised(DType type) {
  return type == DType::i8 || type == DType::u8 || type == DType::i16 || type == DType::u16 || type == DType::i32;
}

bool quantises(const ops::NodeView& view) {
  return view.op().name == ops::quantize_linear.name;
}

// The type that quotients are rounded to: the scale's, unless the attribute names another; undefined where it names
// none.
DType precision_of(const ops::NodeView& view) {
  const std::int64_t given = quantises(view) ? view.integer("precision") : 0;
  if (given < 0 || given >= kDTypeCount) return DType::undefined;
  return given == 0 ? view.input(1).dtype : static_cast<DType>(given);
}

ScaleLayout layout_of(const ops::NodeView& view) {
  const Shape &x = view.input(0).shape, &scale = view.input(1).shape;
  const ops::QuantisationLayout found =
      ops::quantisation_layout(x, scale, view.integer("axis"), view.integer("block_size"));
  if (found.kind == ops::QuantisationLayout::Kind::per_tensor)
    return {.kind = ScaleLayout::Kind::per_tensor, .length = 1, .inner = 1, .blocks = 1, .block_size = 1};
  const auto axis = static_cast<std::size_t>(found.axis);
  const bool blocked = found.kind == ops::QuantisationLayout::Kind::blocked;
  return {.kind = blocked ? ScaleLayout::Kind::blocked : ScaleLayout::Kind::per_axis,
          .length = x[axis],
          .inner = dense_strides(x)[axis],
          .blocks = blocked ? scale[axis] : 1,
          .block_size = blocked ? found.block_size : 1};
}

std::string reject_quantisation(const ops::NodeView& view, const DeviceProperties& device) {
  const DType from = view.input(0).dtype, to = view.output(0).dtype;
  const DType real = quantises(view) ? from : to, integer = quantises(view) ? to : from;
  if (!is_real(real) || !is_real(view.input(1).dtype) || !is_real(precision_of(view)))
    return "the kernel takes real numbers of f32, f16 and bf16 alone";
  if (!is_quantised(integer) || (quantises(view) && integer == DType::i32))
    return fmt::format("the kernel does not convert {} to {}", name_of(from), name_of(to));
  if (view.has_input(2) && view.input(2).elements() != view.input(1).elements())
    return fmt::format("{} zero points for {} scales", view.input(2).elements(), view.input(1).elements());
  return reason_without_image(quantises(view) ? "quantize_linear" : "dequantize_linear", device);
}

class QuantisationKernel final : public Kernel {
 public:
  explicit QuantisationKernel(const ops::NodeView& view)
      : kernel_(quantises(view) ? "quantize_linear" : "dequantize_linear") {
    const DType from = view.input(0).dtype, to = view.output(0).dtype;
    parameters_.count = view.output(0).elements();
    parameters_.layout = layout_of(view);
    parameters_.real = *element_type_of(quantises(view) ? from : to);
    parameters_.integer = *element_type_of(quantises(view) ? to : from);
    parameters_.scale_type = *element_type_of(view.input(1).dtype);
    parameters_.precision = *element_type_of(precision_of(view));
  }

  void run(KernelContext& context) const override {
    QuantisationParameters p = parameters_;
    if (p.count == 0) return;
    p.x = context.input(0).raw();
    p.scale = context.input(1).raw();
    if (context.has_input(2)) p.zero_point = context.input(2).raw();
    p.y = context.output(0).mutable_raw();
    // Blocks beyond this many take their elements in turns.
    constexpr std::int64_t kMostBlocks = 4096;
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(p.count, kQuantisationThreads)));
    shape.block.x = kQuantisationThreads;
    stream_of(context).launch_with(kernel_, shape, p);
  }

 private:
  const std::string_view kernel_;
  QuantisationParameters parameters_{};
};

KernelPointer create_quantisation(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<QuantisationKernel>(view);
}

constexpr KernelEntry quantisation_entry(std::string_view op, std::string_view name) {
  return {.op = op, .name = name, .reject_on = reject_quantisation, .create_on = create_quantisation};
}

}  // namespace

std::span<const KernelEntry> quantisation_kernel_table() {
  static constexpr KernelEntry table[] = {
      quantisation_entry("QuantizeLinear", "cuda_quantize_linear"),
      quantisation_entry("DequantizeLinear", "cuda_dequantize_linear"),
  };
  return table;
}

}  // namespace tessera::backends::cuda
