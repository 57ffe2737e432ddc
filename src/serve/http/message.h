// An HTTP request and its answer, as the addresses of the server see them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/core/service.h"
#include "serve/http/body.h"
#include "serve/http/reply_stream.h"
#include "serve/limits/body_budget.h"

namespace tessera::serve {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query, not decoded
  std::string query;   // what stands behind '?'
  std::string content_encoding, accept_encoding, accept;
  std::string json_bytes;  // Inference-Header-Content-Length, "" without one
  std::string host, origin, content_type;
  Body body;
  Credentials credentials;
  // What the request's connection holds; valid until the reply is called. What the body becomes when it is decompressed
  // is taken from it. Null: nothing counts.
  BodyBudget::Lease* lease = nullptr;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::shared_ptr<ReplyStream> stream;  // the body instead of `body`, which is made while it is sent; null: none
};

// Called exactly once for each request, by any thread.
using Reply = std::function<void(HttpResponse)>;

// The decision from the header alone, before a byte of the body is read.
struct Admission {
  std::optional<HttpResponse> refusal;
  std::int64_t most_body_bytes = 0;  // as sent
};

// Answers requests. Thread-safe.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // For a request that has a body, which is not there yet. Throws nothing.
  virtual Admission admit(const HttpRequest& header) = 0;
  // Returns a call that can be cancelled when the client goes, or null. Throws nothing: what fails is answered.
  virtual std::shared_ptr<Call> handle(HttpRequest request, Reply reply) = 0;
};

class RequestParser;
// The request as its header states it, without what is known of its connection.
HttpRequest request_head(const RequestParser& parser);

// Addresses that are answered even where connections have run out.
bool is_health(std::string_view path);

}  // namespace tessera::serve
