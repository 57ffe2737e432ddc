// Reads the parts of a GGUF file's header one after the other and never beyond its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "io/gguf/gguf_value.h"

namespace tessera::io {

class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }

  // All throw Error(invalid_model) when the bytes end before what is asked for.
  std::span<const std::byte> take(std::uint64_t count) {
    require(count <= bytes_.size() - position_, ErrorKind::invalid_model,
            "the header ends early: {} bytes are expected at byte {}, and {} are left", count, position_,
            bytes_.size() - position_);
    const auto part = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += static_cast<std::size_t>(count);
    return part;
  }
  void skip(std::uint64_t count) { take(count); }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view text() {
    const auto part = take(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  // Throws Error(unsupported) for a number that stands for no type.
  GgufType type(std::string_view key);
  // The bytes of a value, with the lengths in front of a string or an array. `nesting`: the arrays around it. Throws
  // Error(over_budget) beyond kMostNesting.
  std::span<const std::byte> take_value(GgufType type, std::string_view key = {}, int nesting = 0);

  static constexpr int kMostNesting = 4;

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace tessera::io
