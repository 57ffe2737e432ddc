// Definitions shared by kernels that move whole elements.
#pragma once

#include <optional>
#include <vector>

#include "backends/cpu/movement/strided_copy.h"
#include "base/error.h"

namespace tessera::backends::cpu {

// The index counted from the start; throws Error(failed) if it is outside [-bound, bound).
inline std::int64_t checked_index(std::int64_t index, std::int64_t bound) {
  require(index >= -bound && index < bound, ErrorKind::failed, "index {} is outside [{}, {})", index, -bound, bound);
  return index < 0 ? index + bound : index;
}

// Row-major strides in elements.
std::vector<std::int64_t> row_major_strides(const Shape& shape);

// A kernel whose output 0 is input 0 read by strides that are known when the kernel is created.
class MovementKernel final : public Kernel {
 public:
  explicit MovementKernel(StridedCopy copy) : copy_(std::move(copy)) {}
  void run(KernelContext& context) const override {
    copy_.run(context.input(0).raw(), context.output(0).mutable_raw(), context);
  }

 private:
  StridedCopy copy_;
};

// The reading of a movement operator's input: the output's dimensions and the input's strides along them.
struct Movement {
  Shape shape;                        // of output 0
  Shape dims;                         // of the loops; as many elements as `shape`
  std::vector<std::int64_t> strides;  // of the input, in elements
  std::int64_t offset = 0;
};

// The arguments of a movement: the shape of input 0, and the value of another input by index (null: absent).
struct MovementArguments {
  const Shape* shape;
  const Tensor* inputs[8];
};
using MovementFunction = Movement (*)(const MovementArguments&);

// Creates the kernel of an operator whose arguments are inputs: resolved here if they are known, else at each run.
std::unique_ptr<Kernel> make_movement(const ops::NodeView& view, MovementFunction resolve);

}  // namespace tessera::backends::cpu
