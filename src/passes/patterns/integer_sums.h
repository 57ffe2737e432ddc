// What a model makes of the sums of a ConvInteger: how onnxruntime's quantize_dynamic and its like write a layer whose
// data is quantised at run time,
//   Cast(ConvInteger(x, w, x_zero, w_zero) [+ b in integers]) x_scale w_scale [+ b],
// and what maps the result channel by channel behind that, as a normalisation does.
#pragma once

#include <optional>
#include <vector>

#include "passes/patterns/channel_map.h"
#include "passes/patterns/quantised_operands.h"

namespace tessera::passes {

struct IntegerSums {
  ir::NodeId last;                    // whose output the layer gives: the Cast to f32 at the least
  ir::ValueId data_scale;             // one number of f32; an invalid one is 1
  std::vector<double> weights_scale;  // one for each output
  ChannelMap behind;                  // what is done to the product of the sums with both
  ir::ValueId integers;               // what was added before the Cast, i32 with an element for each output; or invalid
  ir::ValueId unit;                   // both scales as the model multiplies them; an invalid one is 1

  // All that is constant of what the sums are multiplied with.
  std::vector<double> scale() const;
};

// Of the sums `value` [N, outputs, spatial...]; nothing where they are used as integers.
std::optional<IntegerSums> find_integer_sums(const ir::Graph& graph, const QuantisedOperands& operands,
                                             ir::ValueId value, std::int64_t outputs);

}  // namespace tessera::passes
