// toml++, and the one function that reads text with it. Only files that need its tables include this.
//
// toml++ 3.3 goes on with some texts that are no TOML ("[=") as if they were right, and only asserts that they are not.
// Here what it asserts is checked in release builds too, and is an error of the text.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace tessera::io {

// Thrown by toml++ where a text breaks a rule that its parser takes for granted.
struct BrokenTomlRule {};
constexpr void keep_toml_rule(bool holds) {
  if (!holds) throw BrokenTomlRule();
}

}  // namespace tessera::io

#ifdef NDEBUG
#undef NDEBUG
#define TESSERA_NDEBUG
#endif
#define TOML_ASSERT(...) ::tessera::io::keep_toml_rule(static_cast<bool>(__VA_ARGS__))
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#ifdef TESSERA_NDEBUG
#undef TESSERA_NDEBUG
#define NDEBUG
#endif

namespace tessera::io {

// `where`: the name of the text in messages. Throws Error(invalid_argument) with line and column where it is no TOML.
inline toml::table parse_toml(std::string_view text, const std::string& where) {
  try {
    return toml::parse(text, where);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    fail(ErrorKind::invalid_argument, "{} is no TOML: line {}, column {}: {}", where, at.line, at.column,
         error.description());
  } catch (const BrokenTomlRule&) {
    fail(ErrorKind::invalid_argument, "{} is no TOML: perhaps a table's header has no name", where);
  }
}

}  // namespace tessera::io
