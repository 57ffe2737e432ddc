#include "tessera/dtype.h"

#include <array>

namespace tessera {
namespace {

struct Row {
  const char* name;
  const char* onnx_name;
  const char* numpy_name;
  int bits;
  char kind;  // f float, i signed, u unsigned, b bool, c complex, s string, - none
};

// Indexed by the DType value.
constexpr std::array<Row, kDTypeCount> kRows{{
    {"undefined", "", "", 0, '-'},
    {"f32", "float", "float32", 32, 'f'},
    {"u8", "uint8", "uint8", 8, 'u'},
    {"i8", "int8", "int8", 8, 'i'},
    {"u16", "uint16", "uint16", 16, 'u'},
    {"i16", "int16", "int16", 16, 'i'},
    {"i32", "int32", "int32", 32, 'i'},
    {"i64", "int64", "int64", 64, 'i'},
    {"string", "string", "object", 0, 's'},
    {"bool", "bool", "bool", 8, 'b'},
    {"f16", "float16", "float16", 16, 'f'},
    {"f64", "double", "float64", 64, 'f'},
    {"u32", "uint32", "uint32", 32, 'u'},
    {"u64", "uint64", "uint64", 64, 'u'},
    {"c64", "complex64", "complex64", 64, 'c'},
    {"c128", "complex128", "complex128", 128, 'c'},
    {"bf16", "bfloat16", "bfloat16", 16, 'f'},
    {"f8e4m3fn", "float8e4m3fn", "float8_e4m3fn", 8, 'f'},
    {"f8e4m3fnuz", "float8e4m3fnuz", "float8_e4m3fnuz", 8, 'f'},
    {"f8e5m2", "float8e5m2", "float8_e5m2", 8, 'f'},
    {"f8e5m2fnuz", "float8e5m2fnuz", "float8_e5m2fnuz", 8, 'f'},
    {"u4", "uint4", "uint4", 4, 'u'},
    {"i4", "int4", "int4", 4, 'i'},
    {"f4e2m1", "float4e2m1", "float4_e2m1fn", 4, 'f'},
    {"f8e8m0", "float8e8m0", "float8_e8m0fnu", 8, 'f'},
    {"u2", "uint2", "uint2", 2, 'u'},
    {"i2", "int2", "int2", 2, 'i'},
}};

const Row& row(DType type) {
  return kRows[static_cast<std::size_t>(type) % kRows.size()];
}

}  // namespace

int bits_of(DType type) {
  return row(type).bits;
}
std::string_view name_of(DType type) {
  return row(type).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (name == kRows[i].name || name == kRows[i].onnx_name || name == kRows[i].numpy_name)
      return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_float(DType type) {
  return row(type).kind == 'f';
}
bool is_integer(DType type) {
  return row(type).kind == 'i' || row(type).kind == 'u';
}
bool is_signed_integer(DType type) {
  return row(type).kind == 'i';
}
bool is_unsigned_integer(DType type) {
  return row(type).kind == 'u';
}
bool is_complex(DType type) {
  return row(type).kind == 'c';
}

}  // namespace tessera
