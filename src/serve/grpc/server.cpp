#include "serve/grpc/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <inference.grpc.pb.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/threads/short_slices.h"
#include "serve/core/log.h"
#include "serve/grpc/convert.h"
#include "serve/grpc/infer_reactors.h"
#include "tessera/version.h"

namespace tessera::serve {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;

// Reactors of short requests: the answer is made at once.
class Front final : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit Front(serve::Service& service) : service_(service) {}
  void end_streams() { streams_.end(); }

  Unary* ServerLive(Context* context, const inference::ServerLiveRequest*,
                    inference::ServerLiveResponse* response) override {
    return answer(context, [&](const Credentials&) { response->set_live(service_.is_live()); });
  }
  Unary* ServerReady(Context* context, const inference::ServerReadyRequest*,
                     inference::ServerReadyResponse* response) override {
    return answer(context, [&](const Credentials&) { response->set_ready(service_.is_ready()); });
  }
  Unary* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                    inference::ModelReadyResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      try {
        service_.model(who, request->name(), request->version());
        response->set_ready(!service_.is_draining());
      } catch (const Failure& failure) {
        if (failure.reason() != Reason::not_found) throw;
        response->set_ready(false);
      }
    });
  }
  Unary* ServerMetadata(Context* context, const inference::ServerMetadataRequest*,
                        inference::ServerMetadataResponse* response) override {
    return answer(context, [&](const Credentials&) {
      response->set_name("tessera");
      response->set_version(TESSERA_VERSION);
      for (const std::string& name : extensions()) response->add_extensions(name);
    });
  }
  Unary* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                       inference::ModelMetadataResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      const auto servable = service_.model(who, request->name(), request->version());
      to_message(servable->info(), service_.versions(who, request->name()), *response);
    });
  }
  Unary* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                     inference::ModelConfigResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      *response->mutable_config() = service_.model(who, request->name(), request->version())->info().settings.config;
    });
  }
  Unary* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                         inference::ModelStatisticsResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      for (const auto& servable : service_.statistics(who, request->name(), request->version()))
        to_message(*servable, *response->add_model_stats());
    });
  }

  Unary* ModelInfer(Context* context, const inference::ModelInferRequest* request,
                    inference::ModelInferResponse* response) override {
    ++service_.grpc_requests;
    return start_infer(service_, *context, *request, *response);
  }
  grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>* ModelStreamInfer(
      Context* context) override {
    return start_stream(service_, *context, streams_);
  }

  Unary* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                         inference::RepositoryIndexResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      for (const ModelState& state : service_.index(who)) {
        if (request->ready() && state.state != "READY") continue;
        auto& model = *response->add_models();
        model.set_name(state.name);
        model.set_version(state.version);
        model.set_state(state.state);
        model.set_reason(state.reason);
      }
    });
  }
  Unary* RepositoryModelLoad(Context* context, const inference::RepositoryModelLoadRequest* request,
                             inference::RepositoryModelLoadResponse*) override {
    return answer(context, [&](const Credentials& who) {
      for (const auto& [name, value] : request->parameters()) {
        if (name == "config" || name.starts_with("file:"))
          throw Failure(Reason::unsupported, "models are loaded from the repository alone, not from a request");
      }
      service_.load(who, request->model_name());
    });
  }
  Unary* RepositoryModelUnload(Context* context, const inference::RepositoryModelUnloadRequest* request,
                               inference::RepositoryModelUnloadResponse*) override {
    return answer(context, [&](const Credentials& who) { service_.unload(who, request->model_name()); });
  }

  Unary* SystemSharedMemoryStatus(Context* context, const inference::SystemSharedMemoryStatusRequest* request,
                                  inference::SystemSharedMemoryStatusResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      const auto [memory, caller] = service_.shared_memory(who);
      const auto list =
          request->name().empty() ? memory.list(caller) : std::vector<Region>{memory.find(caller, request->name())};
      for (const Region& region : list) {
        auto& status = (*response->mutable_regions())[region.name];
        status.set_name(region.name);
        status.set_key(region.key);
        status.set_offset(static_cast<std::uint64_t>(region.offset));
        status.set_byte_size(static_cast<std::uint64_t>(region.byte_size));
      }
    });
  }
  Unary* SystemSharedMemoryRegister(Context* context, const inference::SystemSharedMemoryRegisterRequest* request,
                                    inference::SystemSharedMemoryRegisterResponse*) override {
    return answer(context, [&](const Credentials& who) {
      if (!std::in_range<std::int64_t>(request->offset()) || !std::in_range<std::int64_t>(request->byte_size()))
        throw Failure(Reason::bad_request, "offset or byte_size is out of range");
      const auto [memory, caller] = service_.shared_memory(who);
      memory.add(caller, {request->name(), request->key(), static_cast<std::int64_t>(request->offset()),
                          static_cast<std::int64_t>(request->byte_size())});
    });
  }
  Unary* SystemSharedMemoryUnregister(Context* context, const inference::SystemSharedMemoryUnregisterRequest* request,
                                      inference::SystemSharedMemoryUnregisterResponse*) override {
    return answer(context, [&](const Credentials& who) {
      const auto [memory, caller] = service_.shared_memory(who);
      if (request->name().empty()) memory.remove_all(caller);
      else memory.remove(caller, request->name());
    });
  }
  Unary* CudaSharedMemoryStatus(Context* context, const inference::CudaSharedMemoryStatusRequest*,
                                inference::CudaSharedMemoryStatusResponse*) override {
    return answer(context, [](const Credentials&) {});
  }
  Unary* CudaSharedMemoryUnregister(Context* context, const inference::CudaSharedMemoryUnregisterRequest*,
                                    inference::CudaSharedMemoryUnregisterResponse*) override {
    return answer(context, [](const Credentials&) {});
  }

  Unary* TraceSetting(Context* context, const inference::TraceSettingRequest* request,
                      inference::TraceSettingResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      service_.require_role(who, request->settings().empty() ? Role::read : Role::manage);
      if (!request->settings().empty()) refuse_trace_settings();
      const auto set = [&](const char* key, const char* value) {
        (*response->mutable_settings())[key].add_value(value);
      };
      set("trace_level", "OFF");
      set("trace_rate", "1000");
      set("trace_count", "-1");
      set("log_frequency", "0");
      set("trace_mode", "triton");
    });
  }
  Unary* LogSettings(Context* context, const inference::LogSettingsRequest* request,
                     inference::LogSettingsResponse* response) override {
    return answer(context, [&](const Credentials& who) {
      service_.require_role(who, request->settings().empty() ? Role::read : Role::manage);
      const auto verbose = request->settings().find("log_verbose_level");
      if (verbose != request->settings().end()) set_log_level(verbose->second.uint32_param() > 0 ? "debug" : "info");
      auto& settings = *response->mutable_settings();
      settings["log_info"].set_bool_param(true);
      settings["log_warning"].set_bool_param(true);
      settings["log_error"].set_bool_param(true);
      settings["log_verbose_level"].set_uint32_param(log_level() == "debug" ? 1 : 0);
      settings["log_format"].set_string_param("default");
    });
  }

 private:
  template <typename Make>
  Unary* answer(Context* context, const Make& make) {
    ++service_.grpc_requests;
    Unary* const reactor = context->DefaultReactor();
    try {
      make(credentials_of(*context));
      reactor->Finish(grpc::Status::OK);
    } catch (...) {
      reactor->Finish(status_of(current_failure()));
    }
    return reactor;
  }

  serve::Service& service_;
  OpenStreams streams_;
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

}  // namespace

struct GrpcServer::State {
  explicit State(Service& service) : front(service) {}
  Front front;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

GrpcServer::GrpcServer(Service& service, const GrpcOptions& options) : state_(std::make_unique<State>(service)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.address, credentials_for(options), &state_->port);
  builder.RegisterService(&state_->front);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<std::int64_t>(options.message_bytes, INT32_MAX)));
  builder.SetMaxSendMessageSize(-1);
  // A compressed message may grow beyond every limit when it is decompressed: none is taken.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  grpc::ResourceQuota quota("tessera-serve");
  quota.Resize(static_cast<std::size_t>(options.memory_bytes));
  builder.SetResourceQuota(quota);
  base::ask_for_short_slices();  // its threads inherit them
  state_->server = builder.BuildAndStart();
  base::ask_for_usual_slices();
  require(state_->server != nullptr && state_->port != 0, ErrorKind::io, "cannot listen on {} for gRPC",
          options.address);
}

GrpcServer::~GrpcServer() {
  state_->server->Shutdown(std::chrono::system_clock::now());
}

int GrpcServer::port() const {
  return state_->port;
}

void GrpcServer::drain(double seconds) {
  state_->front.end_streams();
  state_->server->Shutdown(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
}

}  // namespace tessera::serve
