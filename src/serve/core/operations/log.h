// The server's own log: one line of JSON per event, on standard error.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::serve {

enum class Level { debug, info, warning, error };

using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;

// Thread-safe. Messages are sentences without a full stop; what varies is in the fields.
void log(Level level, std::string_view message, LogFields fields = {});
// Logs the message with the text of the exception in flight as the field "why". Call it in a catch block.
void log_current_exception(std::string_view message, LogFields fields = {});

// Events below the level are dropped; info at first. Throws Error(invalid_argument) for an unknown name.
void set_log_level(const std::string& name);
std::string log_level();

}  // namespace tessera::serve
