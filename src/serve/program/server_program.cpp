#include "serve/program/server_program.h"

#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>

#include "serve/core/log.h"

namespace tessera::serve {
namespace {

sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// A server has many threads of which few compute at a time, and each would get an arena of malloc of its own (up to 8 a
// core) whose free memory no other thread uses: memory that grows for hours while no more is in use.
void limit_arenas() {
  ::mallopt(M_ARENA_MAX, static_cast<int>(std::max(2U, std::thread::hardware_concurrency())));
}

// Waits for a signal that ends the server, and looks at the repository meanwhile. Returns the signal.
int wait_for_end(Server& server, double poll_seconds) {
  const sigset_t signals = handled_signals();
  while (true) {
    siginfo_t info{};
    int signal = 0;
    if (poll_seconds > 0) {
      const double whole = std::floor(poll_seconds);
      const timespec time{static_cast<time_t>(whole), static_cast<long>((poll_seconds - whole) * 1e9)};
      signal = ::sigtimedwait(&signals, &info, &time);
    } else {
      signal = ::sigwaitinfo(&signals, &info);
    }
    if (signal == SIGTERM || signal == SIGINT) return signal;
    if (signal < 0 && errno != EAGAIN) continue;
    try {
      server.refresh();
    } catch (...) {
      log_current_exception("the repository could not be read");
    }
  }
}

}  // namespace

void run_server(const ServerOptions& options, const std::function<void(const ServerPorts&)>& ready) {
  limit_arenas();
  const sigset_t signals = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads inherit it: signals come to the wait below alone
  // A client that has gone, and a file that has reached its greatest size, are errors of the call that met them.
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
  Server server(options);
  ready(server.ports());

  const int signal = wait_for_end(server, options.poll_seconds);
  log(Level::info, "draining", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
  server.drain();
  log(Level::info, "stopped");
}

}  // namespace tessera::serve
