#include "element_types.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace tessera::python {
namespace {

constexpr ElementType kElementTypes[] = {
    {DType::f32, "f", "float32", 2},
    {DType::f64, "d", "float64", 2},
    {DType::f16, "e", "float16", 2},
    {DType::i8, "b", "int8", 0},
    {DType::i16, "h", "int16", 0},
    {DType::i32, "i", "int32", 0},
    {DType::i64, "l", "int64", 0},
    {DType::u8, "B", "uint8", 1},
    {DType::u16, "H", "uint16", 1},
    {DType::u32, "I", "uint32", 1},
    {DType::u64, "L", "uint64", 1},
    {DType::boolean, "?", "bool", 6},
    {DType::c64, "Zf", "complex64", 5},
    {DType::c128, "Zd", "complex128", 5},
    {DType::bf16, nullptr, "bfloat16", 4},
    {DType::f8e4m3fn, nullptr, "float8_e4m3fn", 10},
    {DType::f8e4m3fnuz, nullptr, "float8_e4m3fnuz", 11},
    {DType::f8e5m2, nullptr, "float8_e5m2", 12},
    {DType::f8e5m2fnuz, nullptr, "float8_e5m2fnuz", 13},
    {DType::f8e8m0, nullptr, "float8_e8m0fnu", 14},
    {DType::u4, nullptr, "uint4", kNoDlpack},
    {DType::i4, nullptr, "int4", kNoDlpack},
    {DType::f4e2m1, nullptr, "float4_e2m1fn", kNoDlpack},
    {DType::u2, nullptr, "uint2", kNoDlpack},
    {DType::i2, nullptr, "int2", kNoDlpack},
    {DType::string, nullptr, nullptr, kNoDlpack},
};

// Indexed by the value of DType, so that runs need no search.
constexpr auto kByDType = [] {
  std::array<const ElementType*, kDTypeCount> table{};
  for (const ElementType& type : kElementTypes) table[static_cast<std::size_t>(type.dtype)] = &type;
  return table;
}();

DType integer_of(bool is_signed, std::int64_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::i8 : DType::u8;
    case 2:
      return is_signed ? DType::i16 : DType::u16;
    case 4:
      return is_signed ? DType::i32 : DType::u32;
    case 8:
      return is_signed ? DType::i64 : DType::u64;
    default:
      return DType::undefined;
  }
}

}  // namespace

const ElementType* element_type(DType dtype) {
  return kByDType[static_cast<std::size_t>(dtype)];
}

const ElementType* element_type_of_name(std::string_view numpy_name) {
  const auto* found = std::find_if(std::begin(kElementTypes), std::end(kElementTypes), [&](const ElementType& type) {
    return type.numpy_name != nullptr && type.numpy_name == numpy_name;
  });
  return found == std::end(kElementTypes) ? nullptr : found;
}

DType dtype_of_format(std::string_view format, std::int64_t item_bytes) {
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.remove_prefix(1);
  if (format == "Zf") return DType::c64;
  if (format == "Zd") return DType::c128;
  if (format.size() != 1) return DType::undefined;
  switch (format[0]) {
    case 'f':
      return DType::f32;
    case 'd':
      return DType::f64;
    case 'e':
      return DType::f16;
    case '?':
      return DType::boolean;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return integer_of(true, item_bytes);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return integer_of(false, item_bytes);
    default:
      return DType::undefined;
  }
}

DType dtype_of_dlpack(std::uint8_t code, std::uint8_t bits) {
  for (const ElementType& type : kElementTypes) {
    if (type.dlpack_code == code && bits_of(type.dtype) == bits) return type.dtype;
  }
  return DType::undefined;
}

}  // namespace tessera::python
