#include "serve/http/answers.h"

#include <boost/beast/http/status.hpp>

#include "serve/protocol/response_encoder.h"

namespace tessera::serve {

HttpResponse refusal(int status, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body = "{\"error\":" + json_text(message) + "}";
  return response;
}

HttpResponse out_of_budget() {
  HttpResponse response = refusal(503, "the server holds too many bodies and answers");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::string response_header(const HttpResponse& response, bool keep_alive, std::string_view request_id,
                            Framing framing) {
  namespace http = boost::beast::http;
  const boost::beast::string_view reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string header = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nX-Request-Id: {}\r\n", response.status,
                                   std::string_view(reason.data(), reason.size()), response.content_type, request_id);
  if (framing == Framing::content_length) header += fmt::format("Content-Length: {}\r\n", response.body.size());
  if (framing == Framing::chunked) header += "Transfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : response.headers) header += fmt::format("{}: {}\r\n", name, value);
  header += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return header;
}

std::shared_ptr<AccessRecord> make_record(const HttpRequest& head, const std::string& peer) {
  auto record = std::make_shared<AccessRecord>();
  record->protocol = "http";
  record->peer = peer;
  record->method = head.method;
  record->path = head.path;
  return record;
}

void end_record(AccessRecord& record, int status, std::int64_t bytes_in, std::size_t bytes_out,
                std::int64_t lasted_ns) {
  record.status = status;
  record.bytes_in = bytes_in;
  record.bytes_out = static_cast<std::int64_t>(bytes_out);
  record.ended_ns = now_ns();
  record.began_ns = record.ended_ns - lasted_ns;
}

}  // namespace tessera::serve
