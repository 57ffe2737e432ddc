// A client's side of HTTP, plain or over TLS, for what the server sends by itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace tessera::serve {

struct HttpEndpoint {
  std::string host, port, path;
  bool is_tls = false;
};

// Reads "http://HOST[:PORT][/PATH]", or https. Throws Error(invalid_argument) for anything else.
HttpEndpoint parse_http_endpoint(const std::string& url);

struct HttpClientOptions {
  std::string authorities;       // PEM of those who sign the server's certificate; "": those that the system trusts
  std::string certificate, key;  // PEM of the client's own, for a server that asks for one
  bool accepts_any_certificate = false;
  std::string token_file;                      // a token to send as "Authorization: Bearer"
  std::map<std::string, std::string> headers;  // beside those that the client sets itself
};

// For one thread. The files of its options are read anew every minute; where that fails, what was read before stays.
class HttpClient {
 public:
  // Throws Error(invalid_argument) for files that cannot be used and for headers that cannot be sent, and
  // Error(io) for files that cannot be read.
  HttpClient(HttpEndpoint endpoint, HttpClientOptions options);
  ~HttpClient();

  // The status of the answer. Both throw std::exception when there is none within `seconds`, beside the time to
  // resolve the host's name, or when the server's certificate is not accepted.
  int post_json(const std::string& body, double seconds);
  int get(double seconds);

 private:
  struct Credentials;
  static std::unique_ptr<const Credentials> read(const HttpEndpoint& endpoint, const HttpClientOptions& options);
  const Credentials& credentials();
  int ask(bool posts, const std::string& body, double seconds);

  const HttpEndpoint endpoint_;
  const HttpClientOptions options_;
  std::unique_ptr<const Credentials> credentials_;
  std::int64_t read_ns_ = 0;
};

}  // namespace tessera::serve
