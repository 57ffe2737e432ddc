#include "serve/program/server.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "serve/core/operations/log.h"
#include "serve/core/service.h"
#include "serve/grpc/server.h"
#include "serve/grpc/trace_client.h"
#include "serve/http/api.h"
#include "serve/http/client.h"
#include "serve/http/server.h"
#include "serve/protocol/failure.h"

namespace tessera::serve {
namespace {

constexpr const char* kOff = "off";
constexpr double kCollectorSeconds = 2;  // for a collector of traces to take spans

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

// Whether what says who the server is travels to the collector of traces for all to read.
void warn_about_collector(const HttpEndpoint& endpoint, const HttpClientOptions& options) {
  if (endpoint.is_tls || (options.token_file.empty() && options.headers.empty())) return;
  const bool is_six = endpoint.host.find(':') != std::string::npos;
  if (endpoint.host == "localhost" || is_loopback((is_six ? "[" + endpoint.host + "]:" : endpoint.host + ":") + "0"))
    return;
  log(Level::warning, "the token and headers for the collector of traces travel unencrypted: use https",
      {{"host", endpoint.host}});
}

// Whether the addresses for HTTP are for programs of this machine alone.
bool is_on_loopback(const ServerOptions& options) {
  return (options.http == kOff || is_loopback(options.http)) &&
         (options.metrics == kOff || is_loopback(options.metrics));
}

bool shares_memory(const ServerOptions& options) {
  if (options.shared_memory_is_given || !options.shared_memory) return options.shared_memory;
  // Clients on other machines have none, and what lies in it here is not theirs.
  return (options.http == kOff || is_loopback(options.http)) && (options.grpc == kOff || is_loopback(options.grpc));
}

// gRPC's library cancels requests that come while a server ends, and can tell clients to go elsewhere only by the
// greatest age of their connections: half of the delay before the end, as whoever distributes connections needs the
// other half to find out that the server is not ready.
double connection_seconds(const ServerOptions& options) {
  return options.shutdown_delay_seconds / 2;
}

std::unique_ptr<AuditLog> make_audit(const ServerOptions& options) {
  if (options.audit_file.empty()) return nullptr;
  return std::make_unique<AuditLog>(options.audit_file, options.audit);
}

std::unique_ptr<AccessLog> make_access_log(const ServerOptions& options) {
  return options.access_log.file.empty() ? nullptr : std::make_unique<AccessLog>(options.access_log);
}

std::unique_ptr<Tracer> make_tracer(const ServerOptions& options) {
  if (options.tracing.endpoint.empty()) return nullptr;
  const HttpEndpoint endpoint = parse_http_endpoint(options.tracing.endpoint);
  warn_about_collector(endpoint, options.collector);
  if (options.tracing.uses_grpc) {
    const auto collector = std::make_shared<GrpcTraceClient>(endpoint, options.collector);
    return std::make_unique<Tracer>(
        options.tracing, [collector](const std::string& body) { collector->send(body, kCollectorSeconds); },
        otlp_protobuf);
  }
  const auto client = std::make_shared<HttpClient>(endpoint, options.collector);
  return std::make_unique<Tracer>(options.tracing, [client](const std::string& body) {
    const int status = client->post_json(body, kCollectorSeconds);
    require(status / 100 == 2, ErrorKind::io, "it answers with the status {}", status);
  });
}

}  // namespace

struct Server::State {
  explicit State(const ServerOptions& given)
      : options(given),
        tracer(make_tracer(options)),
        bodies(options.limits.all_bodies_bytes),
        decoded_images(bodies),
        access_log(make_access_log(options)),
        arbiter({.policy = options.policy}),
        repository(arbiter, options.repository, options.cache_bytes, options.control),
        access(options.keys),
        audit(make_audit(options)),
        service(repository, access, audit.get(),
                {shares_memory(options), options.shared_memory_prefix, options.audit_inference,
                 options.limits.body_bytes, options.peer_rule, options.threads > 1},
                tracer.get()),
        api(service, {options.limits.body_bytes, options.hosts, is_on_loopback(options), options.origins}),
        metrics_handler(api),
        http(options.limits, options.threads, service.connections, bodies, access_log.get()) {
    repository.images().count_in({bodies.limit(),
                                  [this](std::int64_t bytes) {
                                    if (decoded_images.take(bytes)) return true;
                                    bodies.abandon_slowest();
                                    return false;
                                  },
                                  [this](std::int64_t bytes) { decoded_images.give(bytes); }});
  }

  int listen_http(const std::string& address, HttpHandler& handler) {
    return address == kOff ? 0 : http.listen(address, handler, options.tls);
  }

  void start_grpc() {
    if (options.grpc == kOff) return;
    grpc = std::make_unique<GrpcServer>(
        service,
        GrpcOptions{options.grpc, options.limits, options.tls.certificate, options.tls.key,
                    options.tls.client_authorities, options.tls.require_certificate,
                    options.reflection.value_or(options.keys.empty()), connection_seconds(options)},
        bodies, access_log.get());
    ports.grpc = grpc->port();
  }

  const ServerOptions options;
  std::unique_ptr<Tracer> tracer;  // lives longer than the requests
  BodyBudget bodies;               // of both fronts, and of images
  BodyBudget::Lease decoded_images;
  std::unique_ptr<AccessLog> access_log;
  Arbiter arbiter;
  Repository repository;
  Access access;
  std::unique_ptr<AuditLog> audit;
  Service service;
  HttpApi api;
  MetricsHandler metrics_handler;
  HttpServer http;
  std::unique_ptr<GrpcServer> grpc;
  ServerPorts ports;
  std::atomic<bool> loaded{false};
  std::mutex draining;
  bool drained = false;
};

Server::Server(const ServerOptions& options, Loading loading) {
  set_log_level(options.log_level);
  require(!options.repository.empty(), ErrorKind::invalid_argument,
          "there is nothing to serve: name a model file or a folder of models");
  require(options.threads >= 1 && options.threads <= 256, ErrorKind::invalid_argument,
          "{} threads cannot read requests, expected 1 to 256", options.threads);
  check_control(options.control, options.poll_seconds);
  warn_about_addresses(options);
  state_ = std::make_unique<State>(options);
  state_->ports.http = state_->listen_http(options.http, state_->api);
  state_->ports.metrics = state_->listen_http(options.metrics, state_->metrics_handler);
  state_->repository.expect_loading();
  state_->start_grpc();
  state_->http.start();
  if (loading == Loading::before_return) load();
}

void Server::load() {
  state_->repository.load_all();
  if (state_->audit) state_->audit->write({"server", "start", "", "ready", ""});
  state_->loaded = true;
  state_->service.end_loading();
}

bool Server::is_loaded() const {
  return state_->loaded;
}

Server::~Server() = default;

const ServerPorts& Server::ports() const {
  return state_->ports;
}

bool Server::is_ready() const {
  return state_->service.is_ready();
}

std::vector<ModelState> Server::models() const {
  return state_->repository.index();
}

void Server::begin_leaving() {
  state_->service.begin_leaving();
  state_->http.begin_leaving();
}

void Server::refresh() {
  state_->repository.refresh();
}

void Server::drain() {
  State& state = *state_;
  const std::lock_guard lock(state.draining);
  if (std::exchange(state.drained, true)) return;
  state.service.begin_drain();
  state.repository.stop_loading();
  std::thread grpc_end([&] {
    if (state.grpc) state.grpc->drain(state.options.drain_seconds);
  });
  state.http.drain(state.options.drain_seconds);
  grpc_end.join();
  if (state.loaded) state.repository.drain();
  if (!state.audit) return;
  try {
    state.audit->write({"server", "stop", "", "drained", ""});
  } catch (const Failure& failure) {
    log(Level::error, "the end of the server could not be recorded", {{"why", failure.what()}});
  }
}

}  // namespace tessera::serve
