// tessera::SumRows, the gradient of looking rows up in a table without the table: rows of one place are added up, and
// only places that have rows are given.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef sum_rows;

}  // namespace tessera::ops
