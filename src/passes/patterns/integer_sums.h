// The operators behind a ConvInteger in models whose data is quantised at run time, as onnxruntime's quantize_dynamic
// and similar tools write them:
//   Cast(ConvInteger(x, w, x_zero, w_zero) [+ b in integers]) x_scale w_scale [+ b],
// followed by operators that map the result channel by channel, such as a normalisation.
#pragma once

#include <optional>
#include <vector>

#include "passes/patterns/channel_map.h"
#include "passes/patterns/quantised_operands.h"

namespace tessera::passes {

struct IntegerSums {
  ir::NodeId last;                    // the last node of the pattern; at least the Cast to f32
  ir::ValueId data_scale;             // one f32 number; invalid: 1
  std::vector<double> weights_scale;  // one per output
  ChannelMap behind;                  // applied to the product of the sums with both scales
  ir::ValueId integers;               // added before the Cast: i32 with one element per output; invalid: none
  ir::ValueId unit;                   // the product of both scales as the model computes it; invalid: 1

  // The product of all constant factors of the sums, one per output.
  std::vector<double> scale() const;
};

// The pattern behind the sums `value` [N, outputs, spatial...]; nothing where they are used as integers.
std::optional<IntegerSums> find_integer_sums(const ir::Graph& graph, const QuantisedOperands& operands,
                                             ir::ValueId value, std::int64_t outputs);

}  // namespace tessera::passes
