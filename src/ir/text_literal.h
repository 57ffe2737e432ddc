// Tensors, numbers and types as text (see text.h): both directions, side by side so that they stay inverse.
#pragma once

#include <optional>
#include <string>

#include "ir/text_scanner.h"
#include "ir/type.h"

namespace tessera::ir {

// Nesting of types and graphs that the parser accepts.
inline constexpr int kMaxTextDepth = 64;

// A real attribute: always told apart from an integer.
std::string format_real_attribute(float value);
float read_real_attribute(Scanner& scanner, std::string_view number);
std::int64_t read_integer(Scanner& scanner, std::string_view number);

std::string format_type(const ValueType& type);
ValueType read_type(Scanner& scanner, int depth = 0);
DType read_dtype(Scanner& scanner);

// "f32[2] {1, 2}", or "none" for no tensor.
std::string format_tensor(const Tensor& tensor, std::optional<std::int64_t> max_elements);
Tensor read_tensor(Scanner& scanner);

}  // namespace tessera::ir
