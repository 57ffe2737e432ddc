#include "ir/type.h"

#include "base/error.h"
#include "base/numbers/checked.h"

namespace tessera::ir {

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_known() && b.is_known()) return base::checked_add(a.value(), b.value());
  if (a.is_known() && a.value() == 0) return b;
  if (b.is_known() && b.value() == 0) return a;
  return {};
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a.is_known() && b.is_known() && a.value() >= b.value()) return a.value() - b.value();
  if (b.is_known() && b.value() == 0) return a;
  if (a.is_symbol() && a == b) return 0;
  return {};
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_known() && b.is_known()) return base::checked_multiply(a.value(), b.value());
  if ((a.is_known() && a.value() == 0) || (b.is_known() && b.value() == 0)) return 0;
  if (a.is_known() && a.value() == 1) return b;
  if (b.is_known() && b.value() == 1) return a;
  return {};
}

std::string to_string(const Dim& dim) {
  if (dim.is_known()) return std::to_string(dim.value());
  return dim.is_symbol() ? dim.name() : "?";
}

Dims to_dims(const Shape& shape) {
  return Dims(shape.begin(), shape.end());
}

std::optional<Shape> to_shape(const Dims& dims) {
  Shape shape;
  shape.reserve(dims.size());
  for (const Dim& dim : dims) {
    if (!dim.is_known()) return std::nullopt;
    shape.push_back(dim.value());
  }
  return shape;
}

Dim product(const Dims& dims) {
  Dim result = 1;
  for (const Dim& dim : dims) result = result * dim;
  return result;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + to_string(dims[i]);
  return text + "]";
}

ValueType ValueType::sequence(ValueType element) {
  return {Kind::sequence, DType::undefined, std::nullopt, std::make_shared<const ValueType>(std::move(element))};
}
ValueType ValueType::optional(ValueType element) {
  return {Kind::optional, DType::undefined, std::nullopt, std::make_shared<const ValueType>(std::move(element))};
}
ValueType ValueType::map(DType key, ValueType value) {
  return {Kind::map, key, std::nullopt, std::make_shared<const ValueType>(std::move(value))};
}

std::optional<Shape> ValueType::shape() const {
  return dims ? to_shape(*dims) : std::nullopt;
}

bool operator==(const ValueType& a, const ValueType& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.dims != b.dims) return false;
  if (!a.element || !b.element) return !a.element && !b.element;
  return *a.element == *b.element;
}

std::string to_string(const ValueType& type) {
  const std::string element = type.element ? to_string(*type.element) : "?";
  switch (type.kind) {
    case ValueType::Kind::tensor:
      return std::string(name_of(type.dtype)) + (type.dims ? to_string(*type.dims) : "[*]");
    case ValueType::Kind::sequence:
      return "seq(" + element + ")";
    case ValueType::Kind::optional:
      return "optional(" + element + ")";
    case ValueType::Kind::map:
      return "map(" + std::string(name_of(type.dtype)) + ", " + element + ")";
  }
  return "";
}

ValueType join(const ValueType& a, const ValueType& b) {
  require(a.kind == b.kind, ErrorKind::invalid_model, "types {} and {} do not agree", to_string(a), to_string(b));
  if (a.kind != ValueType::Kind::tensor) {
    require(a.dtype == b.dtype && a.element && b.element, ErrorKind::invalid_model, "types {} and {} do not agree",
            to_string(a), to_string(b));
    ValueType result = a;
    result.element = std::make_shared<const ValueType>(join(*a.element, *b.element));
    return result;
  }
  if (a.dtype == DType::undefined) return b;
  if (b.dtype == DType::undefined) return a;
  require(a.dtype == b.dtype, ErrorKind::invalid_model, "element types {} and {} do not agree", name_of(a.dtype),
          name_of(b.dtype));
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return ValueType::tensor(a.dtype);
  Dims dims = *a.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!(dims[i] == (*b.dims)[i])) dims[i] = Dim();
  }
  return ValueType::tensor(a.dtype, std::move(dims));
}

// A short string lies in the object itself.
std::int64_t heap_bytes(const std::string& text) {
  return text.capacity() > 15 ? static_cast<std::int64_t>(text.capacity()) + 1 : 0;
}

std::int64_t heap_bytes(const ValueType& type) {
  std::int64_t bytes =
      type.element != nullptr ? static_cast<std::int64_t>(sizeof(ValueType)) + heap_bytes(*type.element) : 0;
  if (!type.dims) return bytes;
  bytes += static_cast<std::int64_t>(type.dims->capacity() * sizeof(Dim));
  for (const Dim& dim : *type.dims) bytes += heap_bytes(dim.name());
  return bytes;
}

}  // namespace tessera::ir
