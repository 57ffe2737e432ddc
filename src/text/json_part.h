// Reads the parts of a tokenizer.json, each an object with a "type".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace tessera::text {

inline constexpr int kMostNesting = 16;  // of parts that are sequences of parts
// That parts may make of a text, each from what the one before it made.
inline constexpr std::size_t kMostCharacters = std::size_t{1} << 24;

inline void check_length(std::size_t characters) {
  require(characters <= kMostCharacters, ErrorKind::over_budget,
          "the tokenizer makes more than {} characters of a text", kMostCharacters);
}

// The type of a part. `what` names it in messages: "normalizer".
inline std::string type_of(const nlohmann::json& part, const char* what) {
  require(part.is_object() && part.contains("type") && part["type"].is_string(), ErrorKind::invalid_argument,
          "the {} of the tokenizer has no type", what);
  return part["type"].get<std::string>();
}

[[noreturn]] inline void fail_unknown_part(const std::string& type, const char* what) {
  fail(ErrorKind::unsupported, "the tokenizer's {} '{}' is not supported", what, type);
}

// A whole number; what JSON writes as a fraction is none.
inline std::int64_t whole_number(const nlohmann::json& value) {
  require(value.is_number_integer(), ErrorKind::invalid_argument,
          "the tokenizer has {} where a whole number is expected", value.dump(-1, ' ', true));
  return value.get<std::int64_t>();
}

inline std::int64_t whole_number(const nlohmann::json& part, const char* key, std::int64_t otherwise) {
  const auto found = part.find(key);
  return found == part.end() || found->is_null() ? otherwise : whole_number(*found);
}

inline bool flag_of(const nlohmann::json& part, const char* key, bool otherwise) {
  const auto found = part.find(key);
  return found == part.end() || found->is_null() ? otherwise : found->get<bool>();
}

inline std::string text_of(const nlohmann::json& part, const char* key, const std::string& otherwise) {
  const auto found = part.find(key);
  return found == part.end() || found->is_null() ? otherwise : found->get<std::string>();
}

inline bool has(const nlohmann::json& part, const char* key) {
  const auto found = part.find(key);
  return found != part.end() && !found->is_null();
}

}  // namespace tessera::text
