// Writes JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera::report {

// Bytes that are not UTF-8, which names from files may contain, become U+FFFD. `indent` is that of
// nlohmann::json::dump.
inline std::string json_text(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tessera::report
