#include "serve/http/message.h"

#include "serve/http/request_parser.h"
#include "serve/observe/request_id.h"

namespace tessera::serve {

bool is_health(std::string_view path) {
  return path.starts_with("/v2/health/");
}

HttpRequest request_head(const RequestParser& parser) {
  const auto text = [&](std::string_view name) { return std::string(parser.value(name)); };
  HttpRequest head;
  head.method = std::string(parser.method());
  const std::string_view target = parser.target();
  const std::size_t query = std::min(target.find('?'), target.size());
  head.path = target.substr(0, query);
  head.query = target.substr(std::min(query + 1, target.size()));
  head.host = text("Host");
  head.origin = text("Origin");
  head.content_type = text("Content-Type");
  head.content_encoding = text("Content-Encoding");
  head.accept_encoding = text("Accept-Encoding");
  head.accept = text("Accept");
  head.json_bytes = text("Inference-Header-Content-Length");
  head.credentials.authorization = text("Authorization");
  head.credentials.request_id = request_id(text("X-Request-Id"));
  head.credentials.traceparent = text("traceparent");
  head.credentials.tracestate = text("tracestate");
  return head;
}

}  // namespace tessera::serve
