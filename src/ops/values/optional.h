// Optional, OptionalHasElement, OptionalGetElement: values that may be absent.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef optional_of;
extern const OpDef optional_has_element;
extern const OpDef optional_get_element;

}  // namespace tessera::ops
