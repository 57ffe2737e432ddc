// Sends messages to the handler that the application set (tessera/log.h).
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "tessera/log.h"

namespace tessera {

namespace base {

// Whether a handler is set. Cheap.
bool has_log_handler();
// Calls the handler with the message, in which characters that are not safe to print are escaped. Never throws. A
// message sent from within a handler is dropped.
void send_log(LogLevel level, const std::string& message) noexcept;

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (!has_log_handler()) return;
  send_log(level, [&](const auto&... printed) {
    return fmt::vformat(format, fmt::make_format_args(printed...));
  }(message_argument(args)...));
}

}  // namespace base

// Reports something that is wrong but no error, in a sentence that says what was found and what is done about it.
// Formats the message only if a handler is set.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  base::log(LogLevel::warning, format, std::forward<Args>(args)...);
}

// Reports a detail that only some users want to see.
template <typename... Args>
void inform(fmt::format_string<Args...> format, Args&&... args) {
  base::log(LogLevel::info, format, std::forward<Args>(args)...);
}

}  // namespace tessera
