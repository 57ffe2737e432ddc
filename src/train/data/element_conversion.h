// Numbers in the element types that a net takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/tensor.h"

namespace tessera::train {

// Between floats of 16 to 64 bits, integers of 8 to 64 bits and booleans there is a conversion; others have none.
bool is_convertible(DType type);

// Converts `count` elements; both types must be convertible. Floats are rounded. Returns the place of the first element
// that the target cannot hold: a fraction, NaN or a number out of range for integers, another number than 0 and 1 for
// booleans, a finite number that would become infinite for floats; −1 where all were converted. `scales_bytes`: u8
// becomes a float in [0, 1], divided by 255, as pictures are.
std::int64_t convert_elements(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count,
                              bool scales_bytes);

// An element as text, "1.5".
std::string element_text(DType type, const std::byte* elements, std::int64_t place);

// The tensor in another element type; itself where it has that type. Throws Error(invalid_argument) for a type without
// a conversion and for an element that the target cannot hold; `what` names the tensor in the message.
Tensor converted_tensor(const Tensor& tensor, DType to, bool scales_bytes, const std::string& what);

}  // namespace tessera::train
