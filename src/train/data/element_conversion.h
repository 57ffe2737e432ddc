// Converts numbers to the element types that a net takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/tensor.h"

namespace tessera::train {

// Whether the type can be converted: floats of 16 to 64 bits, integers of 8 to 64 bits, and booleans.
bool is_convertible(DType type);

// Converts `count` elements; both types must be convertible. Floats are rounded. Returns the index of the first element
// that the target type cannot represent, or −1 if all were converted: for integers a fraction, NaN or a number out of
// range; for booleans a number other than 0 and 1; for floats a finite number that would become infinite. With
// `scales_bytes`, u8 is divided by 255 to a float in [0, 1], as for images.
std::int64_t convert_elements(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
                              bool scales_bytes);

// One element as text, such as "1.5".
std::string element_text(DType type, const std::byte* elements, std::int64_t place);

// The tensor in another element type, or itself if it already has that type. Throws Error(invalid_argument) for a type
// without a conversion and for an element that the target type cannot represent; `what` names the tensor in the
// message.
Tensor converted_tensor(const Tensor& tensor, DType to, bool scales_bytes, const std::string& what);

}  // namespace tessera::train
