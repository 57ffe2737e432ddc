#include "serve/grpc/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/threads/short_slices.h"
#include "serve/grpc/health.h"
#include "serve/grpc/inference_methods.h"
#include "serve/grpc/reflection.h"
#include "serve/grpc/stream_call.h"

namespace tessera::serve {
namespace {

constexpr std::chrono::milliseconds kTick{200};      // between two looks at the deadlines of calls
constexpr std::int64_t kLeastQuotaBytes = 16 << 20;  // of messages that gRPC has not handed over
constexpr int kMostPingStrikes = 2, kPingPause_ms = 10'000;

class UnknownCall final : public GrpcCall {
 public:
  UnknownCall(GrpcShared& shared, Context& context) : GrpcCall(shared, context) {}

 private:
  void begin() override { finish({grpc::StatusCode::UNIMPLEMENTED, "the server has no such method"}); }
};

// Makes the calls.
class Front final : public grpc::CallbackGenericService {
 public:
  Front(GrpcShared& shared, bool reflects)
      : shared_(shared), reflects_(reflects), methods_(inference_methods(shared.service)) {
    methods_["/grpc.health.v1.Health/Check"] = health_check(shared.service);
  }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    GrpcCall* const call = make(*context);
    call->start();
    return call;
  }

 private:
  GrpcCall* make(grpc::GenericCallbackServerContext& context) {
    if (const auto found = methods_.find(context.method()); found != methods_.end())
      return new UnaryCall(shared_, context, found->second);
    if (context.method() == "/inference.GRPCInferenceService/ModelStreamInfer") return new StreamCall(shared_, context);
    if (context.method() == "/grpc.health.v1.Health/Watch") return new WatchCall(shared_, context, watches_);
    if (reflects_ && (context.method() == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
                      context.method() == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"))
      return new ReflectionCall(shared_, context);
    return new UnknownCall(shared_, context);
  }

  GrpcShared& shared_;
  const bool reflects_;
  UnaryMethods methods_;
  WatchPlaces watches_;
};

constexpr unsigned kCertificateSeconds = 2;  // between two looks at the files

std::shared_ptr<grpc::ServerCredentials> credentials_for(const GrpcOptions& options) {
  if (options.certificate.empty()) return grpc::InsecureServerCredentials();
  namespace tls = grpc::experimental;
  const bool has_clients = !options.client_authorities.empty();
  tls::TlsServerCredentialsOptions tls_options(std::make_shared<tls::FileWatcherCertificateProvider>(
      options.key, options.certificate, options.client_authorities, kCertificateSeconds));
  tls_options.watch_identity_key_cert_pairs();
  if (has_clients) tls_options.watch_root_certs();
  tls_options.set_cert_request_type(!has_clients ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                    : options.require_certificate
                                        ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                        : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return tls::TlsServerCredentials(tls_options);
}

GrpcLimits limits_of(const HttpLimits& limits) {
  return {limits.body_bytes,    limits.stream_answer_bytes, limits.calls,
          limits.stall_seconds, limits.bytes_per_second,    limits.transfer_seconds};
}

}  // namespace

struct GrpcServer::State {
  State(Service& service, const GrpcOptions& options, BodyBudget& bodies, AccessLog* access_log)
      : connections(options.address, {options.limits.connections, options.limits.connections_per_peer}),
        shared(service, limits_of(options.limits), bodies, connections, access_log),
        front(shared, options.reflection),
        quota("tessera-serve") {}

  // Messages that have not come whole are known to gRPC alone: it may hold what the budget has left.
  void set_quota() {
    const std::int64_t left = shared.bodies.limit() - shared.bodies.used();
    quota.Resize(static_cast<std::size_t>(std::max(left, kLeastQuotaBytes)));
  }

  void watch() {
    auto next = std::chrono::steady_clock::now();
    while (!shared.retries.is_stopped()) {
      shared.retries.wait(kTick);
      if (std::chrono::steady_clock::now() < next) continue;
      next = std::chrono::steady_clock::now() + kTick;
      set_quota();
      shared.calls->tick();
      shared.service.grpc_connections = connections.open();
      shared.service.refused_grpc_connections = connections.refused();
    }
  }

  void stop_watching() {
    shared.retries.stop();
    if (watcher.joinable()) watcher.join();
  }

  GrpcConnections connections;
  GrpcShared shared;
  Front front;
  grpc::ResourceQuota quota;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::thread watcher;
};

GrpcServer::GrpcServer(Service& service, const GrpcOptions& options, BodyBudget& bodies, AccessLog* access_log)
    : state_(std::make_unique<State>(service, options, bodies, access_log)) {
  State& state = *state_;
  grpc::ServerBuilder builder;
  state.acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials_for(options));
  builder.RegisterCallbackGenericService(&state.front);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<std::int64_t>(options.limits.body_bytes, INT32_MAX)));
  builder.SetMaxSendMessageSize(-1);
  // A compressed message may grow beyond every limit when it is decompressed: it is handed over as it came.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.limits.streams_per_connection));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.limits.header_bytes));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(options.limits.header_seconds * 1000));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  if (options.connection_seconds > 0)
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, static_cast<int>(options.connection_seconds * 1000));
  // Clients may ask whether the connection lives, with and without calls, but not all the time.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingPause_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kMostPingStrikes);
  state.set_quota();
  builder.SetResourceQuota(state.quota);
  base::ask_for_short_slices();  // its threads inherit them
  state.server = builder.BuildAndStart();
  base::ask_for_usual_slices();
  require(state.server != nullptr, ErrorKind::io, "gRPC cannot be served on {}", options.address);
  state.connections.start([&state](int descriptor) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = descriptor;
    state.acceptor->HandleNewConnection(&connection);
  });
  state.watcher = std::thread([&state] { state.watch(); });
}

GrpcServer::~GrpcServer() {
  state_->connections.stop();
  state_->server->Shutdown(std::chrono::system_clock::now());
  state_->stop_watching();
}

int GrpcServer::port() const {
  return state_->connections.port();
}

void GrpcServer::drain(double seconds) {
  state_->connections.stop();
  state_->shared.calls->end();
  state_->server->Shutdown(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
}

}  // namespace tessera::serve
