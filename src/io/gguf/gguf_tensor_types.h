// The numbers by which GGUF files name the types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/numbers/block_format.h"

namespace tessera::io {

// "Q4_K", or "type 99" for a number that stands for nothing known.
std::string gguf_type_name(std::uint32_t type);
// Throws Error(unsupported), which names the type and the tensor.
base::BlockFormat gguf_block_format(std::uint32_t type, std::string_view tensor);

}  // namespace tessera::io
