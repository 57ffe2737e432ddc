// Helpers to throw tessera::Error with a formatted message.
#pragma once

#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "base/text.h"
#include "tessera/error.h"

namespace tessera {

namespace base {

// The longest text that an argument of a message may become, however long the names in a file are.
inline constexpr std::size_t kMostArgumentBytes = 500;

template <typename T>
decltype(auto) message_argument(const T& argument) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) return base::shortened(argument, kMostArgumentBytes);
  else return argument;
}

}  // namespace base

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, [&](const auto&... printed) {
    return fmt::vformat(format, fmt::make_format_args(printed...));
  }(base::message_argument(args)...));
}

// Throws Error(kind) unless the condition holds. For checks of the user's input.
template <typename... Args>
void require(bool condition, ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail(kind, format, std::forward<Args>(args)...);
}

}  // namespace tessera
