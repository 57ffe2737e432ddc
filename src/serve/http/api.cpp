#include "serve/http/api.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "serve/core/operations/log.h"
#include "serve/http/api_json.h"
#include "serve/http/api_paths.h"
#include "serve/http/negotiation.h"
#include "serve/http/status_page.h"
#include "serve/protocol/content_coding.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

constexpr const char* kLengthHeader = "Inference-Header-Content-Length";
constexpr std::size_t kMostReadHere = 64 << 10;  // bytes of JSON, which take less than a millisecond
constexpr int kDecodingThreads = 2;

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

// The exception in flight, which is logged where it is a fault of the server.
Failure logged_failure(const std::string& path) {
  const Failure failure = current_failure();
  if (failure.reason() == Reason::internal) log_current_exception("a request failed", {{"path", path}});
  return failure;
}

[[noreturn]] void unknown() {
  throw Failure(Reason::not_found, "there is nothing at this address");
}

void require_method(const HttpRequest& request, std::string_view method) {
  if (request.method == method || (method == "GET" && request.method == "HEAD")) return;
  throw Failure(Reason::method, fmt::format("this address takes {} only", method));
}

// Whether reading the body would keep a thread that other connections wait for.
bool takes_long(const HttpRequest& request) {
  if (!request.content_encoding.empty()) return true;
  std::size_t json_bytes = request.body.bytes.size();
  const std::string& said = request.json_bytes;
  if (!said.empty()) std::from_chars(said.data(), said.data() + said.size(), json_bytes);
  return std::min(json_bytes, request.body.bytes.size()) > kMostReadHere;
}

// A body that is the data of the model's only input, whose shape follows from the length.
InferenceRequest raw_request(const Servable& servable, const Body& whole) {
  const std::string_view body = whole.bytes;
  const ServableInfo& info = servable.info();
  if (info.inputs.size() != 1)
    throw Failure(Reason::bad_request,
                  fmt::format("model '{}' has {} inputs: a body without JSON is for models with one", info.name,
                              info.inputs.size()));
  InferenceInput input{info.inputs[0].name, info.inputs[0].dtype, info.inputs[0].shape, {}, {}};
  if (input.dtype == DType::string) {
    for (std::int64_t& size : input.shape) size = size < 0 ? 1 : size;
    input.tensor = Tensor(DType::string, input.shape);
    if (input.tensor.elements() != 1)
      throw Failure(Reason::bad_request, "a body without JSON holds one element, and the input has more");
    input.tensor.mutable_values<std::string>()[0] = body;
  } else {
    std::int64_t known = bits_of(input.dtype) / 8;
    std::int64_t* open = nullptr;
    for (std::int64_t& size : input.shape) {
      if (size >= 0) known *= size;
      else if (open == nullptr) open = &size;
      else size = 1;
    }
    if (open != nullptr) *open = known > 0 ? static_cast<std::int64_t>(body.size()) / known : 0;
    input.tensor = decode_elements(input.name, input.dtype, input.shape, body, whole.owner);
  }
  InferenceRequest request;
  request.inputs.push_back(std::move(input));
  return request;
}

}  // namespace

HttpApi::HttpApi(Service& service, const HttpApiOptions& options)
    : service_(service),
      options_(options),
      work_(std::make_unique<TaskQueue>()),
      decoding_(std::make_unique<TaskQueue>(kDecodingThreads)) {}
HttpApi::~HttpApi() = default;

std::shared_ptr<Call> HttpApi::handle(HttpRequest request, Reply reply) {
  ++service_.http_requests;
  try {
    Path path = split_path(request.path);
    check_sender(request, path);
    const auto call = std::make_shared<Call>();
    if (!takes_long(request)) return route(request, path, call, reply);
    check_role(request, path);
    const auto asked = std::make_shared<HttpRequest>(std::move(request));
    const bool is_added = decoding_->add(
        [this, asked, path = std::move(path), call, reply] { decode_and_route(std::move(*asked), path, call, reply); });
    if (!is_added) throw Failure(Reason::unavailable, "too many large or compressed bodies wait to be read", 1);
    return call;
  } catch (...) {
    reply(failure_response(logged_failure(request.path)));
    return nullptr;
  }
}

void HttpApi::decode_and_route(HttpRequest request, const Path& path, const std::shared_ptr<Call>& call,
                               const Reply& reply) {
  try {
    if (call->cancellation.flag().load(std::memory_order_relaxed))
      throw Failure(Reason::cancelled, "the request was cancelled");
    const auto take = [&](std::int64_t bytes) { return request.lease == nullptr || request.lease->take(bytes); };
    if (!request.content_encoding.empty())
      request.body =
          body_of(decode_content(request.content_encoding, request.body.bytes, options_.most_body_bytes, take));
    route(request, path, call, reply);
  } catch (...) {
    reply(failure_response(logged_failure(request.path)));
  }
}

std::shared_ptr<Call> HttpApi::route(HttpRequest& request, const Path& path, const std::shared_ptr<Call>& call,
                                     const Reply& reply) {
  if (path.empty() || path[0] == "status") {
    require_method(request, "GET");
    reply(answer_status(request));
    return nullptr;
  }
  if (path[0] != "v2") unknown();
  if (path.size() == 1) {
    require_method(request, "GET");
    reply(json_response(server_metadata_json()));
  } else if (path[1] == "health" && path.size() == 3) {
    require_method(request, "GET");
    if (path[2] != "live" && path[2] != "ready") unknown();
    HttpResponse response;
    response.status = path[2] == "live" || service_.is_ready() ? 200 : 503;
    reply(std::move(response));
  } else if (path[1] == "models" && path.size() >= 3) {
    if (is_inference(path)) return infer(request, path[2], path.size() == 6 ? path[4] : "", call, reply);
    if (is_generation(path)) return generate(request, path, call, reply);
    reply(answer_model(request, path));
  } else if (path[1] == "repository") {
    change_repository(request, path, reply);
  } else if (path[1] == "systemsharedmemory" || path[1] == "cudasharedmemory") {
    reply(answer_regions(request, path));
  } else if (path[1] == "trace" && path.size() == 3 && path[2] == "setting") {
    service_.require_role(request.credentials, request.method == "POST" ? Role::manage : Role::read);
    if (request.method == "POST") refuse_trace_settings();
    reply(json_response(trace_settings_json()));
  } else if (path[1] == "logging" && path.size() == 2) {
    service_.require_role(request.credentials, request.method == "POST" ? Role::manage : Role::read);
    reply(json_response(log_settings_json(request.body.bytes)));
  } else unknown();
  return nullptr;
}

std::shared_ptr<Call> HttpApi::infer(HttpRequest& request, const std::string& model, const std::string& version,
                                     const std::shared_ptr<Call>& call, const Reply& reply) {
  require_method(request, "POST");
  service_.require_role(request.credentials, Role::infer, model);  // before anything is decoded for others
  std::optional<std::size_t> json_bytes;
  if (!request.json_bytes.empty()) {
    std::size_t bytes = 0;
    const char* const end = request.json_bytes.data() + request.json_bytes.size();
    const auto [last, error] = std::from_chars(request.json_bytes.data(), end, bytes);
    if (last != end || error != std::errc())
      throw Failure(Reason::bad_request, fmt::format("the header {} is no number of bytes", kLengthHeader));
    json_bytes = bytes;
  }
  InferenceRequest decoded;
  if (json_bytes == std::size_t{0}) decoded = raw_request(*service_.find(model, version), request.body);
  else decoded = decode_request(request.body.bytes, json_bytes, {}, request.body.owner);
  decoded.model = model;
  decoded.version = version;
  request.body = {};
  return service_.infer(
      request.credentials, std::move(decoded),
      [reply, accepted = request.accept_encoding](Outcome outcome, InferenceRequest& asked) {
        HttpResponse response;
        try {
          if (outcome.failure) throw *outcome.failure;
          EncodedResponse encoded = encode_response(outcome.response, asked);
          response.body = std::move(encoded.body);
          if (encoded.json_bytes) {
            response.content_type = "application/octet-stream";
            response.headers.emplace_back(kLengthHeader, std::to_string(*encoded.json_bytes));
          }
          if (const char* const coding = wanted_coding(response.body.size(), accepted)) {
            response.body = encode_content(coding, response.body);
            response.headers.emplace_back("Content-Encoding", coding);
          }
        } catch (...) {
          response = failure_response(current_failure());
        }
        reply(std::move(response));
      },
      call);
}

HttpResponse HttpApi::answer_model(const HttpRequest& request, const Path& path) {
  if (request.method != "POST") require_method(request, "GET");
  if (path.size() == 3 && path[2] == "stats")
    return json_response(statistics_json(service_.statistics(request.credentials, "", "")));
  const std::string& name = path[2];
  std::size_t next = 3;
  std::string version;
  if (path.size() >= 5 && path[3] == "versions") version = path[4], next = 5;
  if (path.size() > next + 2) unknown();
  const std::string what = path.size() > next ? path[next] : "";
  if (path.size() == next + 2) {
    if (what != "trace" || path.back() != "setting") unknown();
    service_.model(request.credentials, name, version);
    if (request.method == "POST") refuse_trace_settings();
    return json_response(trace_settings_json());
  }
  if (what.empty()) {
    const auto servable = service_.model(request.credentials, name, version);
    return json_response(model_metadata_json(servable->info(), service_.versions(request.credentials, name)));
  }
  if (what == "config")
    return json_response(model_config_json(service_.model(request.credentials, name, version)->info()));
  if (what == "stats") return json_response(statistics_json(service_.statistics(request.credentials, name, version)));
  if (what != "ready") unknown();
  HttpResponse response;
  try {
    service_.model(request.credentials, name, version);
    if (service_.is_leaving()) response.status = 503;
  } catch (const Failure& failure) {
    if (failure.reason() != Reason::not_found) throw;
    response.status = 400;  // as clients of Triton expect
  }
  return response;
}

HttpResponse HttpApi::answer_regions(const HttpRequest& request, const Path& path) {
  const auto [memory, caller] = service_.shared_memory(request.credentials);
  const bool is_cuda = path[1] == "cudasharedmemory";
  const std::string what = path.back();
  const std::string name = path.size() == 5 && path[2] == "region" ? path[3] : "";
  if (path.size() != 3 && name.empty()) unknown();
  if (what == "status") {
    if (is_cuda) return json_response("[]");
    return json_response(
        regions_json(name.empty() ? memory.list(caller) : std::vector<Region>{memory.find(caller, name)}));
  }
  require_method(request, "POST");
  if (what == "unregister") {
    if (!is_cuda && name.empty()) memory.remove_all(caller);
    else if (!is_cuda) memory.remove(caller, name);
    return {};
  }
  if (what != "register" || name.empty()) unknown();
  if (is_cuda) throw Failure(Reason::unsupported, "this server computes on the CPU: it has no CUDA shared memory");
  memory.add(caller, parse_region(name, request.body.bytes));
  return {};
}

void HttpApi::change_repository(const HttpRequest& request, const Path& path, const Reply& reply) {
  if (path.size() == 5 && path[2] == "models" && path[4] == "shares") {
    if (request.method == "POST") service_.set_shares(request.credentials, path[3], parse_shares(request.body.bytes));
    else require_method(request, "GET");
    return reply(json_response(shares_json(service_.shares(request.credentials, path[3]))));
  }
  require_method(request, "POST");
  if (path.size() == 3 && path[2] == "index")
    return reply(json_response(index_json(service_.index(request.credentials), parse_ready_only(request.body.bytes))));
  const bool load = path.size() == 5 && path[4] == "load", unload = path.size() == 5 && path[4] == "unload";
  if ((!load && !unload) || path[2] != "models") unknown();
  service_.require_role(request.credentials, Role::manage, path[3]);
  const RepositoryParameters parameters = parse_repository_parameters(request.body.bytes, load);
  const bool added = work_->add([this, credentials = request.credentials, name = path[3], load, parameters, reply] {
    try {
      if (load) service_.load(credentials, name, parameters.config);
      else service_.unload(credentials, name, parameters.unload_dependents);
      reply({});
    } catch (...) {
      reply(failure_response(current_failure()));
    }
  });
  if (!added) throw Failure(Reason::unavailable, "too many models wait to be loaded", 5);
}

HttpResponse HttpApi::answer_status(const HttpRequest& request) {
  HttpResponse response;
  response.headers.emplace_back("Cache-Control", "no-store");
  if (request.path == "/status/data") {
    response.body = status_json(service_.statistics(request.credentials, "", ""), service_.index(request.credentials),
                                service_.counters(), service_.is_ready(), service_.timeline());
    return response;
  }
  if (request.path != "/" && request.path != "/status") unknown();
  response.content_type = "text/html; charset=utf-8";
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                "connect-src 'self'; img-src data:");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.body = status_page();
  return response;
}

std::shared_ptr<Call> HttpApi::handle_metrics(HttpRequest request, Reply reply) {
  try {
    check_sender(request, split_path(request.path));
    require_method(request, "GET");
    if (request.path == "/metrics") {
      HttpResponse response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = service_.metrics(request.credentials);
      reply(std::move(response));
    } else reply(answer_status(request));
  } catch (...) {
    reply(failure_response(current_failure()));
  }
  return nullptr;
}

}  // namespace tessera::serve
