#include "io/gguf/gguf_cursor.h"

#include "base/text.h"

namespace tessera::io {

GgufType GgufCursor::type(std::string_view key) {
  const auto number = this->number<std::uint32_t>();
  require(number <= static_cast<std::uint32_t>(GgufType::f64), ErrorKind::unsupported,
          "the value of '{}' has the unknown type {}, expected one from 0 to 12", base::shown(key), number);
  return static_cast<GgufType>(number);
}

std::span<const std::byte> GgufCursor::take_value(GgufType type, std::string_view key, int nesting) {
  const std::size_t start = position_;
  if (type == GgufType::string) {
    skip(number<std::uint64_t>());
  } else if (type == GgufType::array) {
    require(nesting < kMostNesting, ErrorKind::over_budget, "the value of '{}' has arrays in arrays, more than {} deep",
            base::shown(key), kMostNesting);
    const GgufType element = this->type(key);
    const auto count = number<std::uint64_t>();
    const std::size_t left = bytes_.size() - position_;
    // An element takes at least as many bytes as its own size, or as the length in front of it.
    const std::size_t least = std::max<std::size_t>(bytes_of(element), bytes_of(element) == 0 ? 8 : 1);
    require(count <= left / least, ErrorKind::invalid_model,
            "'{}' is an array of {} elements of type {}, and only {} bytes are left of the header", base::shown(key),
            count, name_of(element), left);
    if (bytes_of(element) > 0) skip(count * bytes_of(element));
    else
      for (std::uint64_t i = 0; i < count; ++i) take_value(element, key, nesting + 1);
  } else {
    skip(bytes_of(type));
  }
  return bytes_.subspan(start, position_ - start);
}

}  // namespace tessera::io
