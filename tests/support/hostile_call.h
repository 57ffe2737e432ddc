// One operator with operands that a file or a caller may choose, in every way that a model can have them: as constants
// (computed when the session is made), as inputs whose shape the model states (planned ahead), and as inputs of unknown
// shape (looked at when the step runs); each on the devices that compute. Everything runs guarded (see guarded.h), with
// 256 MiB for a session.
#pragma once

#include <string>

#include "support/run_op.h"

namespace tessera::test {

// The call must fail with an Error whose text has this part, in every way.
void expect_call_refused(const OpCall& call, const std::string& part);
// The call must give this tensor as its first output, in every way.
void expect_call_gives(const OpCall& call, const Tensor& expected);
// The call may give anything or fail with an Error.
void expect_call_harmless(const OpCall& call);

// A model of this one node; see above. What is not a tensor is always an input. Inputs are named "input0", "input1" …,
// outputs "0", "1" ….
enum class Operands { constants, shaped_inputs, unshaped_inputs };
ir::Graph graph_of(const OpCall& call, Operands operands);

}  // namespace tessera::test
