#include "serve/http/api.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "serve/core/log.h"
#include "serve/http/api_json.h"
#include "serve/http/status_page.h"
#include "serve/protocol/content_coding.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostWaitingChanges = 64;
constexpr std::size_t kLeastCompressedBytes = 1024;
constexpr const char* kLengthHeader = "Inference-Header-Content-Length";

// Percent-encoded bytes decoded; throws Failure(bad_request) for malformed ones.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    unsigned value = 0;
    const char* const begin = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2)
      throw Failure(Reason::bad_request, "the address has a malformed percent sign");
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(decoded(path.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse failure_response(const Failure& failure) {
  HttpResponse response;
  response.status = http_status(failure.reason());
  response.body = "{\"error\":" + json_text(failure.what()) + "}";
  if (failure.reason() == Reason::unavailable || failure.reason() == Reason::rate_limited)
    response.headers.emplace_back("Retry-After",
                                  fmt::format("{}", std::max(1, static_cast<int>(failure.retry_after_s() + 0.999))));
  if (failure.reason() == Reason::unauthenticated) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

[[noreturn]] void unknown() {
  throw Failure(Reason::not_found, "there is nothing at this address");
}

void require_method(const HttpRequest& request, std::string_view method) {
  if (request.method == method || (method == "GET" && request.method == "HEAD")) return;
  throw Failure(Reason::method, fmt::format("this address takes {} only", method));
}

void compress(HttpResponse& response, const std::string& accepted) {
  if (response.body.size() < kLeastCompressedBytes) return;
  for (const char* coding : {"gzip", "deflate"}) {
    if (accepted.find(coding) == std::string::npos) continue;
    response.body = encode_content(coding, response.body);
    response.headers.emplace_back("Content-Encoding", coding);
    return;
  }
}

// A body that is the data of the model's only input, whose shape follows from the length.
InferenceRequest raw_request(const Servable& servable, const Body& whole) {
  const std::string_view body = whole.bytes;
  const ModelInfo& info = servable.info();
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

// A thread that does one thing after the other.
struct HttpApi::Work {
  Work() : thread([this] { run(); }) {}
  ~Work() {
    {
      const std::lock_guard lock(mutex);
      stops = true;
    }
    changed.notify_all();
    thread.join();
  }
  bool add(std::function<void()> task) {
    const std::lock_guard lock(mutex);
    if (tasks.size() >= kMostWaitingChanges) return false;
    tasks.push_back(std::move(task));
    changed.notify_all();
    return true;
  }
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stops || !tasks.empty(); });
      if (tasks.empty()) return;
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool stops = false;
  std::thread thread;
};

HttpApi::HttpApi(Service& service, std::int64_t most_body_bytes)
    : service_(service), most_body_bytes_(most_body_bytes), work_(std::make_unique<Work>()) {}
HttpApi::~HttpApi() = default;

std::shared_ptr<Call> HttpApi::handle(HttpRequest request, Reply reply) {
  ++service_.http_requests;
  try {
    const Path path = split(request.path);
    if (!request.content_encoding.empty())
      request.body = body_of(decode_content(request.content_encoding, request.body.bytes, most_body_bytes_));
    return route(request, path, reply);
  } catch (...) {
    const Failure failure = current_failure();
    if (failure.reason() == Reason::internal) log_current_exception("a request failed", {{"path", request.path}});
    reply(failure_response(failure));
    return nullptr;
  }
}

std::shared_ptr<Call> HttpApi::route(HttpRequest& request, const Path& path, const Reply& reply) {
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
    const bool has_version = path.size() >= 5 && path[3] == "versions";
    if (path.back() == "infer" && (path.size() == 4 || (has_version && path.size() == 6)))
      return infer(request, path[2], has_version ? path[4] : "", reply);
    reply(answer_model(request, path));
  } else if (path[1] == "repository") {
    change_repository(request, path, reply);
  } else if (path[1] == "systemsharedmemory" || path[1] == "cudasharedmemory") {
    reply(answer_regions(request, path));
  } else if (path[1] == "trace" && path.size() == 3 && path[2] == "setting") {
    service_.require_role(request.credentials, Role::read);
    reply(json_response(trace_settings_json()));
  } else if (path[1] == "logging" && path.size() == 2) {
    service_.require_role(request.credentials, request.method == "POST" ? Role::manage : Role::read);
    reply(json_response(log_settings_json(request.body.bytes)));
  } else unknown();
  return nullptr;
}

std::shared_ptr<Call> HttpApi::infer(HttpRequest& request, const std::string& model, const std::string& version,
                                     const Reply& reply) {
  require_method(request, "POST");
  service_.require_role(request.credentials, Role::infer, model);  // before anything is decoded for others
  std::optional<std::size_t> json_bytes;
  if (!request.json_bytes.empty()) {
    std::size_t bytes = 0;
    const char* const end = request.json_bytes.data() + request.json_bytes.size();
    if (std::from_chars(request.json_bytes.data(), end, bytes).ptr != end)
      throw Failure(Reason::bad_request, fmt::format("the header {} is no number", kLengthHeader));
    json_bytes = bytes;
  }
  InferenceRequest decoded;
  if (json_bytes == std::size_t{0}) decoded = raw_request(*service_.find(model, version), request.body);
  else decoded = decode_request(request.body.bytes, json_bytes, {}, request.body.owner);
  decoded.model = model;
  decoded.version = version;
  request.body = {};
  return service_.infer(request.credentials, std::move(decoded),
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
                            compress(response, accepted);
                          } catch (...) {
                            response = failure_response(current_failure());
                          }
                          reply(std::move(response));
                        });
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
    if (service_.is_draining()) response.status = 503;
  } catch (const Failure& failure) {
    if (failure.reason() != Reason::not_found) throw;
    response.status = 400;  // as clients of Triton expect
  }
  return response;
}

HttpResponse HttpApi::answer_regions(const HttpRequest& request, const Path& path) {
  SharedMemory& memory = service_.shared_memory(request.credentials);
  const bool is_cuda = path[1] == "cudasharedmemory";
  const std::string what = path.back();
  const std::string name = path.size() == 5 && path[2] == "region" ? path[3] : "";
  if (path.size() != 3 && name.empty()) unknown();
  if (what == "status") {
    if (is_cuda) return json_response("[]");
    return json_response(regions_json(name.empty() ? memory.list() : std::vector<Region>{memory.find(name)}));
  }
  require_method(request, "POST");
  if (what == "unregister") {
    if (!is_cuda && name.empty()) memory.remove_all();
    else if (!is_cuda) memory.remove(name);
    return {};
  }
  if (what != "register" || name.empty()) unknown();
  if (is_cuda) throw Failure(Reason::unsupported, "this server computes on the CPU: it has no CUDA shared memory");
  memory.add(parse_region(name, request.body.bytes));
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
  const std::string_view body = request.body.bytes;
  if (load && (body.find("\"config\"") != std::string_view::npos || body.find("\"file:") != std::string_view::npos))
    throw Failure(Reason::unsupported, "models are loaded from the repository alone, not from a request");
  service_.require_role(request.credentials, Role::manage, path[3]);
  const bool added = work_->add([this, credentials = request.credentials, name = path[3], load, reply] {
    try {
      if (load) service_.load(credentials, name);
      else service_.unload(credentials, name);
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
