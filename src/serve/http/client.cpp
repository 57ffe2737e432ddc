#include "serve/http/client.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "io/file.h"
#include "serve/core/operations/log.h"
#include "serve/http/tls_context.h"
#include "tessera/clock.h"

namespace tessera::serve {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::uint64_t kMostAnswerBytes = 1 << 20;
constexpr std::int64_t kMostTokenBytes = 1 << 16;
constexpr std::int64_t kCredentialsNs = 60'000'000'000;  // after which files are read anew

using Request = http::request<http::string_body>;
using TlsStream = asio::ssl::stream<beast::tcp_stream>;

void check_header(const std::string& name, const std::string& value, const std::string& shown) {
  // RFC 9110, 5.1 and 5.5; what frames the message is the client's own.
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  constexpr std::array<std::string_view, 5> kOwn = {"host", "content-length", "content-type", "transfer-encoding",
                                                    "connection"};
  const bool is_token = !name.empty() && std::ranges::all_of(name, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != std::string_view::npos;
  });
  require(is_token, ErrorKind::invalid_argument, "the name '{}' of a header is none of HTTP", name);
  require(std::ranges::none_of(kOwn, [&](std::string_view own) { return beast::iequals(name, std::string(own)); }),
          ErrorKind::invalid_argument, "the header {} is set by the client itself", name);
  // The value may be a secret and is not shown.
  require(std::ranges::none_of(value, [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }),
          ErrorKind::invalid_argument, "{} has control characters, which a header of HTTP cannot have", shown);
}

std::string read_token(const std::string& file) {
  const std::vector<std::byte> bytes = io::read_file(file, kMostTokenBytes);
  std::string token(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  require(!token.empty(), ErrorKind::invalid_argument, "the file {} holds no token", file);
  return token;
}

std::shared_ptr<asio::ssl::context> make_client_context(const HttpClientOptions& options) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  boost::system::error_code error;
  const auto check = [&](const std::string& file, const char* what) {
    require_usable(!error, what, file, error.message());
  };
  if (options.authorities.empty()) context->set_default_verify_paths(error);
  else context->load_verify_file(options.authorities, error);
  check(options.authorities, "the file of authorities");
  context->set_verify_mode(options.accepts_any_certificate ? asio::ssl::verify_none : asio::ssl::verify_peer);
  if (options.certificate.empty()) return context;
  context->use_certificate_chain_file(options.certificate, error);
  check(options.certificate, "the certificate");
  context->use_private_key_file(options.key, asio::ssl::context::pem, error);
  check(options.key, "the private key");
  require(SSL_CTX_check_private_key(context->native_handle()) == 1, ErrorKind::invalid_argument,
          "the private key {} does not belong to the certificate {}", options.key, options.certificate);
  return context;
}

// Says whom the server's certificate must be for.
void expect_host(TlsStream& stream, const std::string& host) {
  SSL* const ssl = stream.native_handle();
  boost::system::error_code is_name;
  asio::ip::make_address(host, is_name);
  if (is_name) {
    SSL_set_tlsext_host_name(ssl, host.c_str());
    SSL_set1_host(ssl, host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  }
}

// The status of the answer to a request over a stream whose lower layer is not connected yet. `after_connect` makes the
// stream ready, and calls what it is given with the outcome.
template <typename Stream, typename AfterConnect>
int exchange(asio::io_context& context, Stream& stream, const asio::ip::tcp::resolver::results_type& addresses,
             const Request& request, double seconds, AfterConnect after_connect) {
  beast::error_code failed;
  http::response_parser<http::string_body> answer;
  answer.body_limit(kMostAnswerBytes);
  beast::flat_buffer buffer;
  const auto read = [&](const beast::error_code& error, std::size_t) {
    failed = error;
    if (!error)
      http::async_read(stream, buffer, answer, [&](const beast::error_code& end, std::size_t) { failed = end; });
  };
  const auto write = [&](const beast::error_code& error) {
    failed = error;
    if (!error) http::async_write(stream, request, read);
  };
  beast::tcp_stream& lowest = beast::get_lowest_layer(stream);
  lowest.expires_after(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
  lowest.async_connect(addresses, [&](const beast::error_code& error, const auto&) {
    failed = error;
    if (!error) after_connect(write);
  });
  context.run();
  // The status counts, whatever becomes of the body behind it.
  if (failed && !answer.is_header_done()) throw beast::system_error(failed);
  return static_cast<int>(answer.get().result_int());
}

int exchange_tls(asio::io_context& context, asio::ssl::context& tls, const HttpEndpoint& endpoint,
                 const asio::ip::tcp::resolver::results_type& addresses, const Request& request, double seconds) {
  TlsStream stream(context, tls);
  expect_host(stream, endpoint.host);
  const auto handshake = [&](const std::function<void(const beast::error_code&)>& then) {
    stream.async_handshake(asio::ssl::stream_base::client, then);
  };
  try {
    return exchange(context, stream, addresses, request, seconds, handshake);
  } catch (const beast::system_error&) {
    const long verdict = SSL_get_verify_result(stream.native_handle());
    require(verdict == X509_V_OK || SSL_get_verify_mode(stream.native_handle()) == SSL_VERIFY_NONE, ErrorKind::io,
            "the certificate of {} is not accepted: {}", endpoint.host, X509_verify_cert_error_string(verdict));
    throw;
  }
}

}  // namespace

HttpEndpoint parse_http_endpoint(const std::string& url) {
  constexpr std::string_view kPlain = "http://", kTls = "https://";
  const bool is_tls = url.starts_with(kTls);
  require(is_tls || url.starts_with(kPlain), ErrorKind::invalid_argument,
          "the endpoint is '{}', expected http://HOST:PORT/PATH or https://HOST:PORT/PATH", url);
  const std::string rest = url.substr(is_tls ? kTls.size() : kPlain.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  HttpEndpoint endpoint{authority, is_tls ? "443" : "80", slash < rest.size() ? rest.substr(slash) : "/", is_tls};
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
    endpoint.host = authority.substr(0, colon);
    endpoint.port = authority.substr(colon + 1);
  }
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))  // an address of IPv6
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  const auto is_printable = [](unsigned char c) { return c > ' ' && c != 0x7f; };
  require(!endpoint.host.empty() && endpoint.host.find_first_of("@?#") == std::string::npos && !endpoint.port.empty() &&
              endpoint.port.find_first_not_of("0123456789") == std::string::npos &&
              std::ranges::all_of(rest, is_printable),
          ErrorKind::invalid_argument, "the endpoint is '{}', expected http://HOST:PORT/PATH or https://HOST:PORT/PATH",
          url);
  return endpoint;
}

struct HttpClient::Credentials {
  std::shared_ptr<asio::ssl::context> tls;  // null: plain
  std::string authorization;                // "": none
};

HttpClient::HttpClient(HttpEndpoint endpoint, HttpClientOptions options)
    : endpoint_(std::move(endpoint)), options_(std::move(options)) {
  require(options_.certificate.empty() == options_.key.empty(), ErrorKind::invalid_argument,
          "a client's certificate and its key are needed together");
  for (const auto& [name, value] : options_.headers) check_header(name, value, "the value of the header " + name);
  credentials_ = read(endpoint_, options_);
  read_ns_ = Clock::steady().now_ns();
}

HttpClient::~HttpClient() = default;

std::unique_ptr<const HttpClient::Credentials> HttpClient::read(const HttpEndpoint& endpoint,
                                                                const HttpClientOptions& options) {
  auto credentials = std::make_unique<Credentials>();
  if (endpoint.is_tls) credentials->tls = make_client_context(options);
  if (!options.token_file.empty()) {
    credentials->authorization = "Bearer " + read_token(options.token_file);
    check_header("Authorization", credentials->authorization, "the token in " + options.token_file);
  }
  return credentials;
}

const HttpClient::Credentials& HttpClient::credentials() {
  const std::int64_t now_ns = Clock::steady().now_ns();
  if (now_ns < read_ns_ + kCredentialsNs) return *credentials_;
  read_ns_ = now_ns;
  try {
    credentials_ = read(endpoint_, options_);
  } catch (const Error& error) {
    log(Level::error, "what a client authenticates with cannot be read anew; the old stays", {{"why", error.what()}});
  }
  return *credentials_;
}

int HttpClient::ask(bool posts, const std::string& body, double seconds) {
  const Credentials& own = credentials();
  Request request{posts ? http::verb::post : http::verb::get, endpoint_.path, 11};
  const bool is_six = endpoint_.host.find(':') != std::string::npos;
  request.set(http::field::host, (is_six ? "[" + endpoint_.host + "]" : endpoint_.host) + ":" + endpoint_.port);
  for (const auto& [name, value] : options_.headers) request.set(name, value);
  if (!own.authorization.empty()) request.set(http::field::authorization, own.authorization);
  if (posts) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  request.keep_alive(false);

  asio::io_context context;
  const auto addresses = asio::ip::tcp::resolver(context).resolve(endpoint_.host, endpoint_.port);
  if (own.tls) return exchange_tls(context, *own.tls, endpoint_, addresses, request, seconds);
  beast::tcp_stream stream(context);
  return exchange(context, stream, addresses, request, seconds, [](const auto& then) { then({}); });
}

int HttpClient::post_json(const std::string& body, double seconds) {
  return ask(true, body, seconds);
}

int HttpClient::get(double seconds) {
  return ask(false, "", seconds);
}

}  // namespace tessera::serve
