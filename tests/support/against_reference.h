// Compares the fast CPU kernels with the reference: every instruction set, one to three threads.
#pragma once

#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test {

// Fails the test unless, for each instruction set that this machine has, device "cpu" picks a kernel of its own for the
// call, gives what the reference gives within the tolerance, and gives the same bits with 1, 2 and 3 threads.
void expect_matches_reference(const OpCall& call, Tolerance tolerance = {});

// The kernel that device "cpu" picks for the call ("cpu_relu"), all inputs being known.
std::string chosen_cpu_kernel(const OpCall& call);
// Every kernel of its own that device "cpu" might pick, if it were measured to be the fastest.
std::vector<std::string> accepting_cpu_kernels(const OpCall& call);
// The outputs, or the first one, by that kernel.
std::vector<Value> run_op_by(const OpCall& call, std::string_view kernel, int threads = 1);
Tensor run_op_tensor_by(const OpCall& call, std::string_view kernel, int threads = 1);

}  // namespace tessera::test
