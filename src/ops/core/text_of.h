// Arguments of messages that are made into text only where the message is: most checks hold, and inference makes many.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ops/core/op.h"

namespace tessera::ops {

// Refers to what is to be printed for as long as the check takes.
template <typename T>
struct TextOf {
  const T* value;  // null: prints nothing

  std::string text() const { return value == nullptr ? std::string() : to_string(*value); }
};

// As to_string(value) in the arguments of require() and InferContext::check().
template <typename T>
TextOf<T> text_of(const T& value) {
  return {&value};
}
// As to_string(*value), or nothing where there is none.
template <typename T>
TextOf<T> text_of(const T* value) {
  return {value};
}

}  // namespace tessera::ops

template <typename T>
struct fmt::formatter<tessera::ops::TextOf<T>> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const tessera::ops::TextOf<T>& argument, Context& context) const {
    const std::string text = argument.text();
    const auto shortened = tessera::base::shortened(text, tessera::base::kMostArgumentBytes);
    return fmt::formatter<std::string_view>::format(std::string_view(shortened), context);
  }
};
