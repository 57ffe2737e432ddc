#include "serve/program/server_program.h"

#include <signal.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>

#include "base/error.h"
#include "serve/core/log.h"
#include "serve/core/repository.h"
#include "serve/core/service.h"
#include "serve/grpc/server.h"
#include "serve/http/api.h"
#include "serve/http/server.h"

namespace tessera::serve {
namespace {

constexpr const char* kOff = "off";

sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// Waits for a signal that ends the server, and looks at the repository meanwhile. Returns the signal.
int wait_for_end(Repository& repository, double poll_seconds) {
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
      repository.refresh();
    } catch (...) {
      log_current_exception("the repository could not be read");
    }
  }
}

// Who can reach the server, and what that means.
void warn_about_addresses(const ServerOptions& options) {
  for (const std::string* address : {&options.http, &options.grpc, &options.metrics}) {
    if (*address == kOff || is_loopback(*address)) continue;
    if (options.keys.empty())
      log(Level::warning, "everybody who reaches this address may use, load and unload models: set up keys",
          {{"address", *address}});
    if (!options.tls.is_on())
      log(Level::warning, "requests and tokens travel unencrypted to this address: set up TLS",
          {{"address", *address}});
  }
}

bool shares_memory(const ServerOptions& options) {
  if (options.shared_memory_is_given || !options.shared_memory) return options.shared_memory;
  // Clients on other machines have none, and what lies in it here is not theirs.
  return (options.http == kOff || is_loopback(options.http)) && (options.grpc == kOff || is_loopback(options.grpc));
}

}  // namespace

void run_server(const ServerOptions& options, const std::function<void(const ServerPorts&)>& ready) {
  const sigset_t signals = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads inherit it: signals come to the wait below alone
  // A client that has gone, and a file that has reached its greatest size, are errors of the call that met them.
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
  set_log_level(options.log_level);
  require(!options.repository.empty(), ErrorKind::invalid_argument,
          "there is nothing to serve: name a model file or a folder of models");
  warn_about_addresses(options);

  Arbiter arbiter({.policy = options.policy});
  Repository repository(arbiter, options.repository);
  Access access(options.keys);
  std::unique_ptr<AuditLog> audit;
  if (!options.audit_file.empty()) audit = std::make_unique<AuditLog>(options.audit_file, options.audit_bytes);
  Service service(repository, access, audit.get(),
                  {shares_memory(options), options.audit_inference, options.threads > 1});
  HttpApi api(service, options.limits.body_bytes);
  HttpServer http(options.limits, options.threads, service.connections);
  ServerPorts ports;
  if (options.http != kOff)
    ports.http = http.listen(
        options.http,
        [&](HttpRequest request, Reply reply) { return api.handle(std::move(request), std::move(reply)); },
        options.tls);
  if (options.metrics != kOff)
    ports.metrics = http.listen(
        options.metrics,
        [&](HttpRequest request, Reply reply) { return api.handle_metrics(std::move(request), std::move(reply)); },
        options.tls);
  repository.load_all();
  if (audit) audit->write({"server", "start", "", "ready", ""});
  std::unique_ptr<GrpcServer> grpc;
  if (options.grpc != kOff) {
    GrpcOptions grpc_options{
        options.grpc,    options.limits.body_bytes,      options.limits.all_bodies_bytes, options.tls.certificate,
        options.tls.key, options.tls.client_authorities, options.tls.require_certificate};
    grpc = std::make_unique<GrpcServer>(service, grpc_options);
    ports.grpc = grpc->port();
  }
  http.start();
  ready(ports);

  const int signal = wait_for_end(repository, options.poll_seconds);
  log(Level::info, "draining", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
  service.begin_drain();
  std::thread grpc_end([&] {
    if (grpc) grpc->drain(options.drain_seconds);
  });
  http.drain(options.drain_seconds);
  grpc_end.join();
  repository.drain();
  if (audit) audit->write({"server", "stop", "", "drained", ""});
  log(Level::info, "stopped");
}

}  // namespace tessera::serve
