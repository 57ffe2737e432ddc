// A dense row-major array: element type, shape, and storage that is shared between copies.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/dtype.h"

namespace tessera {

// Dimensions, outermost first; empty for a scalar. Every dimension is >= 0.
using Shape = std::vector<std::int64_t>;

// "[1, 3, 224, 224]"
std::string to_string(const Shape& shape);
// Product of the dimensions; throws Error(over_budget) on overflow of int64, Error(invalid_argument) on a negative one.
std::int64_t element_count(const Shape& shape);
// Bytes of `shape` elements of `type`, packed (sub-byte types round up to a whole byte); same errors as element_count.
// Strings count sizeof(std::string) each.
std::int64_t byte_count(DType type, const Shape& shape);

// 16-bit floats as plain storage; conversions are in src/base/numbers/half.h.
struct f16_t {
  std::uint16_t bits;
  friend bool operator==(f16_t, f16_t) = default;
};
struct bf16_t {
  std::uint16_t bits;
  friend bool operator==(bf16_t, bf16_t) = default;
};

template <typename T>
inline constexpr DType dtype_of = DType::undefined;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<f16_t> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16_t> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::u16;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<std::uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<std::string> = DType::string;
template <>
inline constexpr DType dtype_of<std::complex<float>> = DType::c64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = DType::c128;

class Tensor {
 public:
  // No tensor: has_value() is false. Stands for an absent optional input.
  Tensor() = default;
  // Uninitialised storage of its own (strings are empty), 64-byte aligned. Throws as byte_count does, and
  // Error(over_budget) when memory cannot be had.
  Tensor(DType type, Shape shape);
  // A view of bytes that `owner` keeps alive (a mapped file, an arena). `data` must hold byte_count(type, shape) bytes.
  // A null owner means that the caller guarantees the lifetime.
  Tensor(DType type, Shape shape, void* data, std::shared_ptr<const void> owner);
  // A tensor whose elements are computed when they are first read, by any copy of it. `fill` gets byte_count(type,
  // shape) bytes, may be called from any thread and at any time while a copy lives, and must write the same each time.
  // Not for strings. Throws as byte_count does; reading may throw Error(over_budget).
  static Tensor deferred(DType type, Shape shape, std::function<void(void*)> fill);

  template <typename T>
  static Tensor from(Shape shape, std::span<const T> values);  // copies; throws invalid_argument on a count mismatch
  template <typename T>
  static Tensor from(Shape shape, std::initializer_list<T> values) {
    return from<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor scalar(T value) {
    return from<T>({}, std::span<const T>(&value, 1));
  }

  bool has_value() const { return type_ != DType::undefined; }
  DType dtype() const { return type_; }
  const Shape& shape() const { return shape_; }
  std::int64_t rank() const { return static_cast<std::int64_t>(shape_.size()); }
  std::int64_t elements() const { return elements_; }
  std::int64_t bytes() const { return bytes_; }

  // Whether there are elements to read: not where a view has no bytes (weights of a plan without a model).
  bool has_data() const { return deferred_ || data_ != nullptr; }
  // Whether its elements are still to be computed.
  bool is_deferred() const;
  // A tensor with the same elements, computed if this one is deferred. The new tensor alone keeps the computed
  // elements, unless they were read before.
  Tensor contents() const;

  const void* raw() const { return deferred_ ? computed() : data_; }
  void* mutable_raw() { return const_cast<void*>(raw()); }
  // Typed access; throws Error(invalid_argument) when T is not the element type.
  template <typename T>
  const T* data() const {
    check_type(dtype_of<T>);
    return static_cast<const T*>(raw());
  }
  template <typename T>
  T* mutable_data() {
    check_type(dtype_of<T>);
    return static_cast<T*>(mutable_raw());
  }
  template <typename T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<std::size_t>(elements_)};
  }
  template <typename T>
  std::span<T> mutable_values() {
    return {mutable_data<T>(), static_cast<std::size_t>(elements_)};
  }

  // A tensor that shares this storage under another shape. Throws Error(invalid_argument) if the element counts differ.
  Tensor reshaped(Shape shape) const;
  // A deep copy with storage of its own.
  Tensor clone() const;
  // Identifies the storage: for two live tensors, equal if and only if both begin at the same byte. Null without
  // storage.
  const void* storage() const { return deferred_ ? owner_.get() : data_; }
  bool shares_storage_with(const Tensor& other) const { return storage() == other.storage() && storage() != nullptr; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  void check_type(DType wanted) const;
  const void* computed() const;

  DType type_ = DType::undefined;
  bool deferred_ = false;  // owner_ computes the elements and keeps them, data_ is null
  Shape shape_;
  std::int64_t elements_ = 0;
  std::int64_t bytes_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// Whether type, shape and the bits of all elements are equal (so NaN equals itself). Unused bits in the last byte of
// packed elements are ignored.
bool identical(const Tensor& a, const Tensor& b);

// A value on an edge of a graph: usually a tensor; ONNX also has sequences, optionals and maps.
class Value {
 public:
  enum class Kind : std::uint8_t { none, tensor, sequence, map };
  Value() = default;  // none: an absent optional
  Value(Tensor tensor) : kind_(Kind::tensor), tensor_(std::move(tensor)) {}
  static Value sequence(std::vector<Value> elements);
  // keys: 1-D i64 or string tensor without repetitions; values: one Value per key, in the same order. Throws
  // Error(invalid_argument) otherwise.
  static Value map(Tensor keys, std::vector<Value> values);

  Kind kind() const { return kind_; }
  bool has_value() const { return kind_ != Kind::none; }
  bool is_tensor() const { return kind_ == Kind::tensor; }
  // Throw Error(invalid_argument) when the kind differs.
  const Tensor& tensor() const;
  Tensor& tensor();
  const std::vector<Value>& elements() const;  // of a sequence, or the values of a map
  const Tensor& keys() const;                  // of a map
  // The value of a key of a map, or null when it has none. Linear. Throw when the map's keys are of the other type.
  const Value* find(std::string_view key) const;
  const Value* find(std::int64_t key) const;

 private:
  Kind kind_ = Kind::none;
  Tensor tensor_;  // the tensor, or a map's keys
  std::shared_ptr<const std::vector<Value>> elements_;
};

}  // namespace tessera
