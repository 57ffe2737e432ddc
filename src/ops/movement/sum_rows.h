// tessera::SumRows, the gradient of a table lookup without the table: adds up the rows that belong to the same row of
// the table, and returns only the rows of the table that were looked up.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef sum_rows;

}  // namespace tessera::ops
