#include "cost/precision.h"

namespace tessera::cost {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return "f32";
    case Precision::tf32:
      return "tf32";
    case Precision::f16:
      return "f16";
    case Precision::bf16:
      return "bf16";
    case Precision::int8:
      return "int8";
  }
  return "";
}

std::optional<Precision> parse_precision(std::string_view text) {
  for (const Precision precision : kAllPrecisions) {
    if (name_of(precision) == text) return precision;
  }
  return std::nullopt;
}

DType storage_type(Precision precision) {
  switch (precision) {
    case Precision::f32:
    case Precision::tf32:
      return DType::f32;
    case Precision::f16:
      return DType::f16;
    case Precision::bf16:
      return DType::bf16;
    case Precision::int8:
      return DType::i8;
  }
  return DType::undefined;
}

int storage_bytes(Precision precision) {
  const DType type = storage_type(precision);
  return type == DType::f32 ? 4 : type == DType::i8 ? 1 : 2;
}

}  // namespace tessera::cost
