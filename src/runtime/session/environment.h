// The environment of a model's programs, by its session's options.
#pragma once

#include "runtime/session/program.h"

namespace tessera::runtime {

// The type that layers multiply in: what the options say, or else what the package was made with, or f32. Throws Error:
// invalid_argument (another precision than that of a package of less than f32, or one that there is no option for),
// unsupported (a package of an unknown precision).
DType precision_for(const Model& model, const SessionOptions& options);

// Charges the model's constants. Throws Error: invalid_argument (unknown device), over_budget.
ProgramEnvironment make_environment(const Model& model, const SessionOptions& options);

// Lets programs of the environment that are made from here on run on the device, with up to so many bytes of its memory
// (0: all) if it has memory of its own. The environment has its account and its store of packed weights.
void use_device(ProgramEnvironment& environment, const backends::Device& device, std::int64_t memory_limit_bytes = 0);

// Whether the passes of these options ran on the model before, for this device and these instruction sets.
bool is_optimised_for(const Model& model, const SessionOptions& options);

// The program of the model: its graph after the passes. `environment` outlives it. Throws Error as passes::run_pipeline
// does, and over_budget.
std::unique_ptr<Program> make_program(const Model& model, const SessionOptions& options,
                                      const ProgramEnvironment& environment);

}  // namespace tessera::runtime
