#include "serve/http/post.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>

#include "base/error.h"

namespace tessera::serve {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::uint64_t kMostAnswerBytes = 1 << 20;

}  // namespace

HttpEndpoint parse_http_endpoint(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  require(url.starts_with(kScheme), ErrorKind::invalid_argument, "the endpoint is '{}', expected http://HOST:PORT/PATH",
          url);
  const std::string rest = url.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  HttpEndpoint endpoint{authority, "80", slash < rest.size() ? rest.substr(slash) : "/"};
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
    endpoint.host = authority.substr(0, colon);
    endpoint.port = authority.substr(colon + 1);
  }
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))  // an address of IPv6
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  require(!endpoint.host.empty() && !endpoint.port.empty() &&
              endpoint.port.find_first_not_of("0123456789") == std::string::npos,
          ErrorKind::invalid_argument, "the endpoint is '{}', expected http://HOST:PORT/PATH", url);
  return endpoint;
}

int post_json(const HttpEndpoint& endpoint, const std::string& body, double seconds) {
  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  const auto addresses = resolver.resolve(endpoint.host, endpoint.port);
  beast::tcp_stream stream(context);
  stream.expires_after(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
  http::request<http::string_body> request{http::verb::post, endpoint.path, 11};
  request.set(http::field::host, endpoint.host + ":" + endpoint.port);
  request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  request.keep_alive(false);
  http::response_parser<http::string_body> answer;
  answer.body_limit(kMostAnswerBytes);
  beast::flat_buffer buffer;
  beast::error_code failed;
  const auto read = [&](const beast::error_code& error, std::size_t) {
    failed = error;
    if (!error)
      http::async_read(stream, buffer, answer, [&](const beast::error_code& end, std::size_t) { failed = end; });
  };
  stream.async_connect(addresses, [&](const beast::error_code& error, const auto&) {
    failed = error;
    if (!error) http::async_write(stream, request, read);
  });
  context.run();
  if (failed) throw beast::system_error(failed);
  return static_cast<int>(answer.get().result_int());
}

}  // namespace tessera::serve
