#include "serve/program/server_program.h"

#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <thread>

#include "serve/core/operations/log.h"

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

// A connection is a descriptor, and the usual limit of a shell is 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

constexpr double kUsualPollSeconds = 15;  // in the model control mode poll, as Triton has it

double poll_seconds_of(const ServerOptions& options) {
  if (options.poll_seconds > 0 || options.control.mode != ModelControl::poll) return options.poll_seconds;
  return kUsualPollSeconds;
}

// From its construction to its end, a signal to end the server ends the process at once: it is the second one.
class SecondSignal {
 public:
  SecondSignal() : thread_([this] { watch(); }) {}
  ~SecondSignal() {
    is_over_ = true;
    thread_.join();
  }
  SecondSignal(const SecondSignal&) = delete;
  SecondSignal& operator=(const SecondSignal&) = delete;

 private:
  void watch() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
    constexpr timespec kLook{0, 20'000'000};
    while (!is_over_) {
      const int signal = ::sigtimedwait(&signals, nullptr, &kLook);
      if (signal < 0) continue;
      log(Level::warning, "ended at once by a second signal, whatever was in flight");
      std::_Exit(128 + signal);
    }
  }

  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

// Loads the models while signals are heeded. Returns the signal that ends the server meanwhile, 0 without one; an
// exception of loading passes.
int load(Server& server) {
  struct Progress {
    std::atomic<bool> is_over = false;
    std::exception_ptr failure;
  };
  const auto progress = std::make_shared<Progress>();  // the thread may outlive this function
  std::thread loader([&server, progress] {
    try {
      server.load();
    } catch (...) {
      progress->failure = std::current_exception();
    }
    progress->is_over = true;
  });
  const sigset_t signals = handled_signals();
  while (!progress->is_over) {
    constexpr timespec kLook{0, 20'000'000};
    const int signal = ::sigtimedwait(&signals, nullptr, &kLook);
    if (signal != SIGTERM && signal != SIGINT) continue;
    loader.detach();  // it is within a model, and the process ends
    return signal;
  }
  loader.join();
  if (progress->failure) std::rethrow_exception(progress->failure);
  return 0;
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
  raise_descriptor_limit();
  Server server(options, Server::Loading::by_load);
  const auto end = [&](int signal, double delay_s) {
    const SecondSignal second;
    const char* const name = signal == SIGTERM ? "SIGTERM" : "SIGINT";
    server.begin_leaving();
    if (delay_s > 0) {
      // Whoever sends requests here needs time to find out that the server is not ready, and to choose another one.
      log(Level::info, "not ready, and draining later", {{"signal", name}, {"seconds", fmt::format("{:g}", delay_s)}});
      std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
    }
    log(Level::info, "draining", {{"signal", name}});
    server.drain();
    log(Level::info, "stopped");
  };
  if (const int signal = load(server); signal != 0) {
    end(signal, 0);  // it was never ready
    std::_Exit(0);
  }
  ready(server.ports());
  end(wait_for_end(server, poll_seconds_of(options)), options.shutdown_delay_seconds);
}

}  // namespace tessera::serve
