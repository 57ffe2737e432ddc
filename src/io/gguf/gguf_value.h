// A value of a GGUF file's metadata: a view of the mapped file, decoded when it is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::io {

// Numbers as in the file.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
std::string_view name_of(GgufType type);
// Bytes of a value of a fixed size; 0 for strings and arrays.
std::size_t bytes_of(GgufType type);

class GgufValue {
 public:
  // `bytes` are exactly those of the value; what its lengths say was checked against them.
  GgufValue(std::string_view key, GgufType type, std::span<const std::byte> bytes)
      : key_(key), type_(type), bytes_(bytes) {}

  std::string_view key() const { return key_; }
  // As in the file.
  std::span<const std::byte> bytes() const { return bytes_; }
  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::array; }
  // The type of an array's elements, or the value's own type.
  GgufType element_type() const;
  // The number of an array's elements, or 1.
  std::int64_t count() const;
  // "u32", or "array of string".
  std::string description() const;

  // Each throws Error(invalid_model), which names the key and both types, when the value is of another kind.
  std::string_view text() const;
  std::int64_t integer() const;  // of any integer type that holds a number from 0 to 2^63 − 1, or a negative one
  double number() const;         // of any integer or float type
  bool flag() const;
  // An array's elements; a single value counts as an array of one.
  std::vector<std::string_view> texts() const;
  std::vector<std::int64_t> integers() const;
  std::vector<double> numbers() const;
  std::vector<bool> flags() const;
  // The elements of an array one by one, which may be arrays again.
  std::vector<GgufValue> elements() const;

 private:
  [[noreturn]] void refuse(std::string_view expected) const;
  template <typename T, typename Read>
  std::vector<T> listed(Read read) const;

  std::string_view key_;
  GgufType type_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera::io
