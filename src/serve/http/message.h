// An HTTP request and its answer, as the addresses of the server see them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/core/service.h"
#include "serve/http/body.h"

namespace tessera::serve {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query, not decoded
  std::string query;   // what stands behind '?'
  std::string content_encoding, accept_encoding, accept;
  std::string json_bytes;  // Inference-Header-Content-Length, "" without one
  Body body;
  Credentials credentials;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// Called exactly once for each request, by any thread.
using Reply = std::function<void(HttpResponse)>;
// Returns a call that can be cancelled when the client goes, or null.
using Handler = std::function<std::shared_ptr<Call>(HttpRequest, Reply)>;

}  // namespace tessera::serve
