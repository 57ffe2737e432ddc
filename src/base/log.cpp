#include "base/log.h"

#include <atomic>
#include <mutex>

#include "base/text.h"

namespace tessera {
namespace {

constexpr std::size_t kMostLogBytes = 16'384;

// The handler of the process. Neither is ever destroyed, because threads may still log while the process ends.
std::mutex& handler_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

LogHandler& current_handler() {
  static LogHandler& handler = *new LogHandler;
  return handler;
}

std::atomic<bool> someone_listens = false;
thread_local bool in_handler = false;

}  // namespace

void set_log_handler(LogHandler handler) {
  require(!in_handler, ErrorKind::invalid_argument, "a log handler may not replace the log handler");
  const std::lock_guard lock(handler_mutex());
  someone_listens.store(static_cast<bool>(handler), std::memory_order_relaxed);
  current_handler() = std::move(handler);
}

namespace base {

bool has_log_handler() {
  return someone_listens.load(std::memory_order_relaxed);
}

void send_log(LogLevel level, const std::string& message) noexcept try {
  if (in_handler) return;
  const std::string printed = printable(shortened(message, kMostLogBytes));
  const std::lock_guard lock(handler_mutex());
  if (!current_handler()) return;
  in_handler = true;
  try {
    current_handler()(level, printed);
  } catch (...) {
    // A handler's exception must not end a run.
  }
  in_handler = false;
} catch (...) {
  // There is no memory for the text: the message is lost, and the work that it is about goes on.
}

}  // namespace base
}  // namespace tessera
