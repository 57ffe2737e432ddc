#include "serve/core/operations/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

#include "base/error.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("tessera-serve", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

void write(Level level, std::string_view message, LogFields fields, const std::string& why) {
  if (!logger().should_log(level_of(level))) return;
  std::string line = "\"event\":";
  append_json_text(message, line);
  const auto add = [&](std::string_view key, std::string_view value) {
    line += ',';
    append_json_text(key, line);
    line += ':';
    append_json_text(value, line);
  };
  for (const auto& [key, value] : fields) add(key, value);
  if (!why.empty()) add("why", why);
  logger().log(level_of(level), "{}", line);
  logger().flush();
}

}  // namespace

void log(Level level, std::string_view message, LogFields fields) {
  write(level, message, fields, {});
}

void log_current_exception(std::string_view message, LogFields fields) {
  std::string why = "unknown";
  try {
    throw;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  write(Level::warning, message, fields, why);
}

void set_log_level(const std::string& name) {
  const auto level = spdlog::level::from_str(name);
  require(level != spdlog::level::off || name == "off", ErrorKind::invalid_argument,
          "'{}' is no level of the log, expected debug, info, warning or error", name);
  logger().set_level(level);
}

std::string log_level() {
  const auto name = spdlog::level::to_string_view(logger().level());
  return {name.data(), name.size()};
}

}  // namespace tessera::serve
