#include "ops/movement/expand.h"

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

Movement resolve_expand(const MovementArguments& arguments) {
  const Shape& input = *arguments.shape;
  Movement movement;
  movement.shape = ops::concrete_shape(ops::expand_dims(ir::to_dims(input), ops::integers_of(*arguments.inputs[1])));
  movement.dims = movement.shape;
  movement.strides.assign(movement.shape.size(), 0);
  const std::vector<std::int64_t> own = row_major_strides(input);
  const std::size_t added = movement.shape.size() - input.size();
  for (std::size_t i = 0; i < input.size(); ++i) movement.strides[added + i] = input[i] == 1 ? 0 : own[i];
  return movement;
}

// Every axis becomes two: the repetitions, with stride 0 in the input, and the axis itself.
Movement resolve_tile(const MovementArguments& arguments) {
  const Shape& input = *arguments.shape;
  const std::vector<std::int64_t> repeats = ops::integers_of(*arguments.inputs[1]);
  Movement movement;
  movement.shape = ops::concrete_shape(ops::tile_dims(ir::to_dims(input), repeats));
  const std::vector<std::int64_t> own = row_major_strides(input);
  for (std::size_t i = 0; i < input.size(); ++i) {
    movement.dims.insert(movement.dims.end(), {repeats[i], input[i]});
    movement.strides.insert(movement.strides.end(), {0, own[i]});
  }
  return movement;
}

}  // namespace

std::unique_ptr<Kernel> make_expand(const ops::NodeView& view, WeightStore&) {
  return make_movement(view, resolve_expand);
}

std::unique_ptr<Kernel> make_tile(const ops::NodeView& view, WeightStore&) {
  return make_movement(view, resolve_tile);
}

}  // namespace tessera::backends::cpu
