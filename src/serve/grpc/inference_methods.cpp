#include "serve/grpc/inference_methods.h"

#include <inference.pb.h>

#include <optional>
#include <string>
#include <utility>

#include "serve/core/control/repository_parameters.h"
#include "serve/core/operations/log.h"
#include "serve/grpc/convert.h"
#include "serve/protocol/failure.h"
#include "tessera/version.h"

namespace tessera::serve {
namespace {

constexpr const char* kService = "/inference.GRPCInferenceService/";

void server_live(Service& service, const Credentials& who, const inference::ServerLiveRequest& request,
                 inference::ServerLiveResponse& response) {
  response.set_live(service.is_live());
}

void server_ready(Service& service, const Credentials& who, const inference::ServerReadyRequest& request,
                  inference::ServerReadyResponse& response) {
  response.set_ready(service.is_ready());
}

void model_ready(Service& service, const Credentials& who, const inference::ModelReadyRequest& request,
                 inference::ModelReadyResponse& response) {
  try {
    service.model(who, request.name(), request.version());
    response.set_ready(!service.is_leaving());
  } catch (const Failure& failure) {
    if (failure.reason() != Reason::not_found) throw;
    response.set_ready(false);
  }
}

void server_metadata(Service& service, const Credentials& who, const inference::ServerMetadataRequest& request,
                     inference::ServerMetadataResponse& response) {
  response.set_name("tessera");
  response.set_version(TESSERA_VERSION);
  for (const std::string& name : extensions()) response.add_extensions(name);
}

void model_metadata(Service& service, const Credentials& who, const inference::ModelMetadataRequest& request,
                    inference::ModelMetadataResponse& response) {
  const auto servable = service.model(who, request.name(), request.version());
  to_message(servable->info(), service.versions(who, request.name()), response);
}

void model_config(Service& service, const Credentials& who, const inference::ModelConfigRequest& request,
                  inference::ModelConfigResponse& response) {
  *response.mutable_config() = service.model(who, request.name(), request.version())->info().settings.config;
}

void model_statistics(Service& service, const Credentials& who, const inference::ModelStatisticsRequest& request,
                      inference::ModelStatisticsResponse& response) {
  for (const auto& servable : service.statistics(who, request.name(), request.version()))
    to_message(*servable, *response.add_model_stats());
}

void repository_index(Service& service, const Credentials& who, const inference::RepositoryIndexRequest& request,
                      inference::RepositoryIndexResponse& response) {
  for (const ModelState& state : service.index(who)) {
    if (request.ready() && state.state != "READY") continue;
    auto& model = *response.add_models();
    model.set_name(state.name);
    model.set_version(state.version);
    model.set_state(state.state);
    model.set_reason(state.reason);
  }
}

void repository_model_load(Service& service, const Credentials& who,
                           const inference::RepositoryModelLoadRequest& request,
                           inference::RepositoryModelLoadResponse& response) {
  std::optional<std::string> config;
  for (const auto& [name, value] : request.parameters()) {
    if (name != "config" || !value.has_string_param()) refuse_repository_parameter(name, true);
    config = value.string_param();
  }
  service.load(who, request.model_name(), config);
}

void repository_model_unload(Service& service, const Credentials& who,
                             const inference::RepositoryModelUnloadRequest& request,
                             inference::RepositoryModelUnloadResponse& response) {
  bool with_steps = false;
  for (const auto& [name, value] : request.parameters()) {
    if (name != "unload_dependents" || !value.has_bool_param()) refuse_repository_parameter(name, false);
    with_steps = value.bool_param();
  }
  service.unload(who, request.model_name(), with_steps);
}

void system_shared_memory_status(Service& service, const Credentials& who,
                                 const inference::SystemSharedMemoryStatusRequest& request,
                                 inference::SystemSharedMemoryStatusResponse& response) {
  const auto [memory, caller] = service.shared_memory(who);
  const auto list =
      request.name().empty() ? memory.list(caller) : std::vector<Region>{memory.find(caller, request.name())};
  for (const Region& region : list) {
    auto& status = (*response.mutable_regions())[region.name];
    status.set_name(region.name);
    status.set_key(region.key);
    status.set_offset(static_cast<std::uint64_t>(region.offset));
    status.set_byte_size(static_cast<std::uint64_t>(region.byte_size));
  }
}

void system_shared_memory_register(Service& service, const Credentials& who,
                                   const inference::SystemSharedMemoryRegisterRequest& request,
                                   inference::SystemSharedMemoryRegisterResponse& response) {
  if (!std::in_range<std::int64_t>(request.offset()) || !std::in_range<std::int64_t>(request.byte_size()))
    throw Failure(Reason::bad_request, "offset or byte_size is out of range");
  const auto [memory, caller] = service.shared_memory(who);
  memory.add(caller, {request.name(), request.key(), static_cast<std::int64_t>(request.offset()),
                      static_cast<std::int64_t>(request.byte_size())});
}

void system_shared_memory_unregister(Service& service, const Credentials& who,
                                     const inference::SystemSharedMemoryUnregisterRequest& request,
                                     inference::SystemSharedMemoryUnregisterResponse& response) {
  const auto [memory, caller] = service.shared_memory(who);
  if (request.name().empty()) memory.remove_all(caller);
  else memory.remove(caller, request.name());
}

void cuda_shared_memory_status(Service& service, const Credentials& who,
                               const inference::CudaSharedMemoryStatusRequest& request,
                               inference::CudaSharedMemoryStatusResponse& response) {}

void cuda_shared_memory_unregister(Service& service, const Credentials& who,
                                   const inference::CudaSharedMemoryUnregisterRequest& request,
                                   inference::CudaSharedMemoryUnregisterResponse& response) {}

void trace_setting(Service& service, const Credentials& who, const inference::TraceSettingRequest& request,
                   inference::TraceSettingResponse& response) {
  service.require_role(who, request.settings().empty() ? Role::read : Role::manage);
  if (!request.settings().empty()) refuse_trace_settings();
  const auto set = [&](const char* key, const char* value) { (*response.mutable_settings())[key].add_value(value); };
  set("trace_level", "OFF");
  set("trace_rate", "1000");
  set("trace_count", "-1");
  set("log_frequency", "0");
  set("trace_mode", "triton");
}

void log_settings(Service& service, const Credentials& who, const inference::LogSettingsRequest& request,
                  inference::LogSettingsResponse& response) {
  service.require_role(who, request.settings().empty() ? Role::read : Role::manage);
  const auto verbose = request.settings().find("log_verbose_level");
  if (verbose != request.settings().end()) set_log_level(verbose->second.uint32_param() > 0 ? "debug" : "info");
  auto& settings = *response.mutable_settings();
  settings["log_info"].set_bool_param(true);
  settings["log_warning"].set_bool_param(true);
  settings["log_error"].set_bool_param(true);
  settings["log_verbose_level"].set_uint32_param(log_level() == "debug" ? 1 : 0);
  settings["log_format"].set_string_param("default");
}

// One request and its answer.
void infer(Service& service, UnaryCall& call) {
  const auto cancellable = call.cancellable();
  inference::ModelInferRequest request;
  call.message().parse(request);
  cancellable->set(
      service.infer(call.credentials(), from_message(request), [&call](Outcome outcome, InferenceRequest& asked) {
        try {
          if (outcome.failure) throw *outcome.failure;
          call.answer(encode_answer(outcome.response, asked));
        } catch (...) {
          call.refuse(current_failure());
        }
      }));
}

template <typename Request, typename Response>
UnaryMethod method_of(Service& service, void (*answer)(Service&, const Credentials&, const Request&, Response&)) {
  return {[&service, answer](UnaryCall& call) {
    Request request;
    call.message().parse(request);
    Response response;
    answer(service, call.credentials(), request, response);
    call.answer(response.SerializeAsString());
  }};
}

}  // namespace

UnaryMethods inference_methods(Service& service) {
  UnaryMethods methods;
  const auto add = [&](const std::string& name, auto* answer) -> UnaryMethod& {
    return methods[kService + name] = method_of(service, answer);
  };
  add("ServerLive", server_live).is_public = true;
  add("ServerReady", server_ready).is_public = true;
  add("ModelReady", model_ready);
  add("ServerMetadata", server_metadata).is_public = true;
  add("ModelMetadata", model_metadata);
  add("ModelConfig", model_config);
  add("ModelStatistics", model_statistics);
  add("RepositoryIndex", repository_index);
  add("RepositoryModelLoad", repository_model_load).is_slow = true;
  add("RepositoryModelUnload", repository_model_unload).is_slow = true;
  add("SystemSharedMemoryStatus", system_shared_memory_status);
  add("SystemSharedMemoryRegister", system_shared_memory_register);
  add("SystemSharedMemoryUnregister", system_shared_memory_unregister);
  add("CudaSharedMemoryStatus", cuda_shared_memory_status);
  add("CudaSharedMemoryUnregister", cuda_shared_memory_unregister);
  add("TraceSetting", trace_setting);
  add("LogSettings", log_settings);
  UnaryMethod& inference = methods[std::string(kService) + "ModelInfer"];
  inference.handle = [&service](UnaryCall& call) { infer(service, call); };
  inference.is_inference = true;
  return methods;
}

}  // namespace tessera::serve
