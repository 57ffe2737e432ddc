// A client's side of HTTP, for what the server sends by itself.
#pragma once

#include <string>

namespace tessera::serve {

struct HttpEndpoint {
  std::string host, port, path;
};

// Reads "http://HOST[:PORT][/PATH]". Throws Error(invalid_argument) for anything else, https included.
HttpEndpoint parse_http_endpoint(const std::string& url);

// Posts a JSON text and returns the status of the answer. Throws std::exception when there is none within `seconds`,
// beside the time to resolve the host's name.
int post_json(const HttpEndpoint& endpoint, const std::string& body, double seconds);

}  // namespace tessera::serve
