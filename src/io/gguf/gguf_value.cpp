#include "io/gguf/gguf_value.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "io/gguf/gguf_cursor.h"

namespace tessera::io {
namespace {

struct TypeEntry {
  std::string_view name;
  std::size_t bytes;
};
// By the type's number.
constexpr TypeEntry kTypes[] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
                                {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 0}, {"array", 0},
                                {"u64", 8}, {"i64", 8}, {"f64", 8}};
constexpr std::size_t kArrayHeader = 12;

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

}  // namespace

std::string_view name_of(GgufType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::size_t bytes_of(GgufType type) {
  return kTypes[static_cast<std::size_t>(type)].bytes;
}

GgufType GgufValue::element_type() const {
  return is_array() ? static_cast<GgufType>(load<std::uint32_t>(bytes_)) : type_;
}

std::int64_t GgufValue::count() const {
  return is_array() ? static_cast<std::int64_t>(load<std::uint64_t>(bytes_.subspan(4))) : 1;
}

std::string GgufValue::description() const {
  return is_array() ? fmt::format("array of {}", name_of(element_type())) : std::string(name_of(type_));
}

void GgufValue::refuse(std::string_view expected) const {
  fail(ErrorKind::invalid_model, "the value of '{}' has type {}, expected {}", key_, description(), expected);
}

std::string_view GgufValue::text() const {
  if (type_ != GgufType::string) refuse("string");
  return {reinterpret_cast<const char*>(bytes_.data()) + 8, bytes_.size() - 8};
}

std::int64_t GgufValue::integer() const {
  switch (type_) {
    case GgufType::u8:
      return load<std::uint8_t>(bytes_);
    case GgufType::i8:
      return load<std::int8_t>(bytes_);
    case GgufType::u16:
      return load<std::uint16_t>(bytes_);
    case GgufType::i16:
      return load<std::int16_t>(bytes_);
    case GgufType::u32:
      return load<std::uint32_t>(bytes_);
    case GgufType::i32:
      return load<std::int32_t>(bytes_);
    case GgufType::i64:
      return load<std::int64_t>(bytes_);
    case GgufType::u64: {
      const auto value = load<std::uint64_t>(bytes_);
      require(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), ErrorKind::invalid_model,
              "the value of '{}' is {}, more than 2^63 - 1", key_, value);
      return static_cast<std::int64_t>(value);
    }
    default:
      refuse("an integer type");
  }
}

double GgufValue::number() const {
  if (type_ == GgufType::f32) return load<float>(bytes_);
  if (type_ == GgufType::f64) return load<double>(bytes_);
  if (bytes_of(type_) == 0 || type_ == GgufType::boolean) refuse("a number");
  return static_cast<double>(integer());
}

bool GgufValue::flag() const {
  if (type_ != GgufType::boolean) refuse("bool");
  return bytes_[0] != std::byte{0};
}

std::vector<GgufValue> GgufValue::elements() const {
  if (!is_array()) return {*this};
  GgufCursor cursor(bytes_);
  const GgufType type = element_type();
  cursor.skip(kArrayHeader);
  std::vector<GgufValue> result;
  result.reserve(static_cast<std::size_t>(count()));
  for (std::int64_t i = 0; i < count(); ++i) result.emplace_back(key_, type, cursor.take_value(type));
  return result;
}

template <typename T, typename Read>
std::vector<T> GgufValue::listed(Read read) const {
  if (!is_array()) return {read(*this)};
  GgufCursor cursor(bytes_);
  const GgufType type = element_type();
  cursor.skip(kArrayHeader);
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(count()));
  for (std::int64_t i = 0; i < count(); ++i) result.push_back(read(GgufValue(key_, type, cursor.take_value(type))));
  return result;
}

std::vector<std::string_view> GgufValue::texts() const {
  return listed<std::string_view>([](const GgufValue& value) { return value.text(); });
}

std::vector<std::int64_t> GgufValue::integers() const {
  return listed<std::int64_t>([](const GgufValue& value) { return value.integer(); });
}

std::vector<double> GgufValue::numbers() const {
  return listed<double>([](const GgufValue& value) { return value.number(); });
}

std::vector<bool> GgufValue::flags() const {
  return listed<bool>([](const GgufValue& value) { return value.flag(); });
}

}  // namespace tessera::io
