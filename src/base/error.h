// Helpers to throw tessera::Error with a formatted message.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "tessera/error.h"

namespace tessera {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Throws unless the condition holds: a check of the user's input.
template <typename... Args>
void require(bool condition, ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]] throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tessera
