#include "signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string_view>

#include "io/output_file.h"

namespace tessera::apps {
namespace {

Cancellation cancellation_by_signal, cancellation_of_answer;
std::atomic<int> signal_that_came{0};
std::atomic<bool> stop_is_graceful{false}, is_answering{false}, errors_on_terminal{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler uses them");

// Calls only functions that a signal handler may call (signal-safety(7)).
void on_signal(int number) {
  if (number == SIGINT && is_answering) return cancellation_of_answer.cancel();
  const bool first = signal_that_came.exchange(number) == 0;
  if (first) {
    // Overwrites a line of progress that may be on the terminal.
    const std::string_view text = errors_on_terminal ? "\r\x1b[Ktessera: interrupted\n" : "tessera: interrupted\n";
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
    cancellation_by_signal.cancel();
    if (stop_is_graceful) return;
  }
  io::remove_temporaries();
  ::_exit(128 + number);
}

}  // namespace

void handle_signals() {
  errors_on_terminal = ::isatty(STDERR_FILENO) != 0;
  struct sigaction action{};
  action.sa_handler = &on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  }
}

int received_signal() {
  return signal_that_came;
}

GracefulStop::GracefulStop() {
  stop_is_graceful = true;
}

GracefulStop::~GracefulStop() {
  stop_is_graceful = false;
}

const Cancellation& GracefulStop::cancellation() const {
  return cancellation_by_signal;
}

// The object is static, so that a handler that still runs on another thread finds it.
AnswerStop::AnswerStop() {
  std::construct_at(&cancellation_of_answer);
  is_answering = true;
}

AnswerStop::~AnswerStop() {
  is_answering = false;
}

const Cancellation& AnswerStop::cancellation() const {
  return cancellation_of_answer;
}

}  // namespace tessera::apps
