#include "ops/core/after.h"

#include "ops/core/gradient.h"

namespace tessera::ops {

const OpDef after{
    .name = "tessera::After",
    .inputs = {{"data", types::all, "T"}, {"first", types::all, "T2"}},
    .outputs = {{"output", types::all, "T"}},
    .infer = infer_same_as_input,
    .gradient = [](GradientContext& c) { c.set(0, c.gradient()); },
};

}  // namespace tessera::ops
