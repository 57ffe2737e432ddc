// Types of values in a graph: element type and a shape whose dimensions may be known, named or unknown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::ir {

using tessera::to_string;

// One dimension: a number, a name ("batch"; equal names are equal sizes), or unknown.
class Dim {
 public:
  Dim() = default;                            // unknown
  Dim(std::int64_t value) : value_(value) {}  // NOLINT: numbers are dimensions
  static Dim symbol(std::string name) {
    Dim dim;
    dim.symbol_ = std::move(name);
    return dim;
  }

  bool is_known() const { return value_ >= 0; }
  bool is_symbol() const { return !symbol_.empty(); }
  bool is_unknown() const { return !is_known() && !is_symbol(); }
  std::int64_t value() const { return value_; }  // -1 unless known
  const std::string& name() const { return symbol_; }

  // Unknown equals nothing, not even itself: use operator== for identity of descriptions and this for equal sizes.
  bool surely_equals(const Dim& other) const { return !is_unknown() && *this == other; }
  // False when both are known and differ.
  bool may_equal(const Dim& other) const { return !is_known() || !other.is_known() || value_ == other.value_; }
  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  std::int64_t value_ = -1;
  std::string symbol_;
};

// Arithmetic that keeps what is certain: numbers compute (with overflow checks), n*1 and n+0 stay n, all else is
// unknown.
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
std::string to_string(const Dim& dim);  // "3", "batch", "?"

using Dims = std::vector<Dim>;
Dims to_dims(const Shape& shape);
// The concrete shape, or nothing when a dimension is not a number.
std::optional<Shape> to_shape(const Dims& dims);
Dim product(const Dims& dims);
std::string to_string(const Dims& dims);

struct ValueType {
  enum class Kind : std::uint8_t { tensor, sequence, optional, map };

  Kind kind = Kind::tensor;
  DType dtype = DType::undefined;            // element type of a tensor, key type of a map; undefined: not known yet
  std::optional<Dims> dims;                  // of a tensor; nothing: rank unknown
  std::shared_ptr<const ValueType> element;  // of a sequence or optional; value type of a map

  static ValueType tensor(DType dtype) { return {Kind::tensor, dtype, std::nullopt, nullptr}; }
  static ValueType tensor(DType dtype, Dims dims) { return {Kind::tensor, dtype, std::move(dims), nullptr}; }
  static ValueType tensor(DType dtype, const Shape& shape) { return tensor(dtype, to_dims(shape)); }
  static ValueType sequence(ValueType element);
  static ValueType optional(ValueType element);
  static ValueType map(DType key, ValueType value);

  bool is_tensor() const { return kind == Kind::tensor; }
  // The concrete shape of a tensor, or nothing.
  std::optional<Shape> shape() const;
  friend bool operator==(const ValueType& a, const ValueType& b);
};

// Approximate bytes of heap memory behind the object.
std::int64_t heap_bytes(const std::string& text);
std::int64_t heap_bytes(const ValueType& type);

// "f32[batch, 3, 224, 224]", "f32[*]" (rank unknown), "seq(f32[*])", "optional(i64[])", "map(string, f32[])"
std::string to_string(const ValueType& type);

// The most precise type that covers both: unequal dimensions become unknown, unequal ranks an unknown rank.
// Throws Error(invalid_model) when kinds or element types differ.
ValueType join(const ValueType& a, const ValueType& b);

}  // namespace tessera::ir
