// Arguments of error messages that are converted to text only when the message is needed: most checks hold, and
// inference makes many checks.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ops/core/op.h"

namespace tessera::ops {

// Borrows the value to be printed; the value must outlive the check.
template <typename T>
struct TextOf {
  const T* value;  // null: prints nothing

  std::string text() const { return value == nullptr ? std::string() : to_string(*value); }
};

// Converts like to_string(value), in the arguments of require() and InferContext::check().
template <typename T>
TextOf<T> text_of(const T& value) {
  return {&value};
}
// Converts like to_string(*value); empty text for a null pointer.
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
