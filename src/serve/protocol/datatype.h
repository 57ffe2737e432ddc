// Names of element types in the Open Inference Protocol: FP32, INT64, BYTES …
#pragma once

#include <optional>
#include <string_view>

#include "tessera/dtype.h"

namespace tessera::serve {

// "" for types that the protocol has no name for.
std::string_view datatype_name(DType type);
std::optional<DType> datatype_from_name(std::string_view name);

}  // namespace tessera::serve
