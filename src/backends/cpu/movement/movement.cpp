#include "backends/cpu/movement/movement.h"

#include "backends/cpu/movement/kernels.h"

namespace tessera::backends::cpu {
namespace {

// A movement kernel that resolves its arguments at each run, since the model computes them.
class DynamicMovementKernel final : public Kernel {
 public:
  explicit DynamicMovementKernel(MovementFunction resolve) : resolve_(resolve) {}

  void run(KernelContext& context) const override {
    MovementArguments arguments{&context.input(0).shape(), {}};
    for (std::size_t i = 1; i < context.input_count(); ++i) {
      if (context.has_input(i)) arguments.inputs[i] = &context.input(i);
    }
    const Movement movement = resolve_(arguments);
    Tensor& output = context.allocate_output(0, movement.shape);
    const StridedCopy copy(output.dtype(), movement.dims, movement.strides, movement.offset);
    copy.run(context.input(0).raw(), output.mutable_raw(), context);
  }

 private:
  MovementFunction resolve_;
};

}  // namespace

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  // Unsigned arithmetic: strides of an empty tensor may overflow, and are never used.
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(strides[i]) * static_cast<std::uint64_t>(shape[i]));
  }
  return strides;
}

std::unique_ptr<Kernel> make_movement(const ops::NodeView& view, MovementFunction resolve) {
  MovementArguments arguments{&view.input(0).shape, {}};
  for (std::size_t i = 1; i < view.input_count(); ++i) {
    if (!view.has_input(i)) continue;
    arguments.inputs[i] = view.constant(i);
    if (arguments.inputs[i] == nullptr) return std::make_unique<DynamicMovementKernel>(resolve);
  }
  const Movement movement = resolve(arguments);
  return std::make_unique<MovementKernel>(
      StridedCopy(view.input(0).dtype, movement.dims, movement.strides, movement.offset));
}

std::string reject_unless_bytes(const ops::NodeView& view) {
  return moves_as_bytes(view.input(0).dtype) ? "" : "moves elements of whole bytes";
}

}  // namespace tessera::backends::cpu
