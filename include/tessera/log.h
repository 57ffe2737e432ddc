// Warnings and notes about conditions that are not errors, such as shapes that a model declares wrongly.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "tessera/export.h"

namespace tessera {

enum class LogLevel : std::uint8_t {
  warning = 1,  // something is not as it should be: the model, the machine or its settings
  info = 2,     // details of a warning, or what Tessera chose
};

// Receives one message, a sentence without a newline. Messages come one at a time, from any thread that calls Tessera
// or computes for it. The handler may call Tessera (messages that this causes are dropped), but not set_log_handler;
// exceptions that it throws are swallowed.
using LogHandler = std::function<void(LogLevel level, std::string_view message)>;

// Replaces the handler of the process; an empty one drops all messages, and that is the default: a library is silent
// unless its host wants to hear it. When this returns, the previous handler is not running and will not be called.
// Thread-safe. Throws Error(invalid_argument) when called by a handler.
TESSERA_API void set_log_handler(LogHandler handler);

}  // namespace tessera
