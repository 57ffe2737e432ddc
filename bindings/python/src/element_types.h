// Names of element types in Python: in the buffer protocol, in numpy and ml_dtypes, and in DLPack.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/dtype.h"

namespace tessera::python {

struct ElementType {
  DType dtype;
  const char* buffer_format;  // of the buffer protocol; null if it does not have the type
  const char* numpy_name;     // of numpy, or of ml_dtypes if buffer_format is null; null for strings
  std::uint8_t dlpack_code;   // of DLPack 1.1; kNoDlpack if it does not have the type
};
inline constexpr std::uint8_t kNoDlpack = 255;

// Null for DType::undefined.
const ElementType* element_type(DType dtype);
// Null if no element type has the name.
const ElementType* element_type_of_name(std::string_view numpy_name);
// The type of a format in native byte order and with native sizes; undefined for all other formats.
DType dtype_of_format(std::string_view format, std::int64_t item_bytes);
DType dtype_of_dlpack(std::uint8_t code, std::uint8_t bits);

}  // namespace tessera::python
