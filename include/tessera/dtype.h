// Element types of tensors. Names follow ONNX TensorProto.DataType; short names (f32, i64 …) are used in text and
// tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

// Values equal ONNX TensorProto.DataType, so that files map without a table.
enum class DType : std::uint8_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
};

inline constexpr int kDTypeCount = 27;

// Bits of one element as stored; elements under 8 bits are packed, low bits first. 0 for string and undefined.
int bits_of(DType type);
// Short name: "f32", "bool", "string" …
std::string_view name_of(DType type);
// The inverse of name_of; also accepts ONNX and numpy names ("float", "float32", "int64").
std::optional<DType> dtype_from_name(std::string_view name);

bool is_float(DType type);    // f64 f32 f16 bf16 and the 8- and 4-bit floats
bool is_integer(DType type);  // signed or unsigned, not bool
bool is_signed_integer(DType type);
bool is_unsigned_integer(DType type);
bool is_complex(DType type);
inline bool is_subbyte(DType type) {
  int bits = bits_of(type);
  return bits > 0 && bits < 8;
}

}  // namespace tessera
