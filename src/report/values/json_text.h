// JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera::report {

// Names from files may hold any bytes: those that are no UTF-8 become U+FFFD. `indent` as nlohmann::json::dump has it.
inline std::string json_text(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tessera::report
