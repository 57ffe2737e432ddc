// Short ways to write the attributes and the element types of an operator's signature.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Attributes of one number, with its default.
inline AttributeSpec integer_attribute(std::string_view name, std::int64_t value = 0) {
  return {name, ir::AttributeKind::integer, ir::Attribute(value)};
}
inline AttributeSpec real_attribute(std::string_view name, float value) {
  return {name, ir::AttributeKind::real, ir::Attribute(value)};
}
// An attribute that every node must have.
inline AttributeSpec required_attribute(std::string_view name, ir::AttributeKind kind) {
  return {name, kind, std::nullopt, true};
}

namespace types {
inline constexpr TypeSet bytes{DType::i8, DType::u8};
inline constexpr TypeSet f32{DType::f32};
inline constexpr TypeSet i32{DType::i32};
inline constexpr TypeSet f32_and_f64{DType::f32, DType::f64};
inline constexpr TypeSet floats_to_f32{DType::f16, DType::bf16, DType::f32};
inline constexpr TypeSet classical_numbers{DType::f32, DType::f64, DType::i32, DType::i64};
inline constexpr TypeSet any_element = numbers | boolean | text | complex;
}  // namespace types

}  // namespace tessera::ops
