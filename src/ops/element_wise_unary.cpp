#include "ops/element_wise_unary.h"

namespace tessera::ops {

const OpDef relu{
    .name = "Relu",
    .since = 14,
    .inputs = {{"X", types::signed_numbers, "T"}},
    .outputs = {{"Y", types::signed_numbers, "T"}},
    .infer = infer_same_as_input,
    .operations = operations_per_output<1>,
};

const OpDef sigmoid{
    .name = "Sigmoid",
    .since = 13,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .infer = infer_same_as_input,
    .operations = operations_per_output<4>,
};

}  // namespace tessera::ops
