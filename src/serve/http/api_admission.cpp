#include <algorithm>

#include "base/text.h"
#include "serve/http/api.h"
#include "serve/http/api_paths.h"
#include "serve/http/negotiation.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostOtherBodyBytes = 1 << 20;  // of requests that are no inferences

// A name that a stranger can register and point at this machine: one without a dot is of the local network.
bool may_be_strange(const std::string& host) {
  return host.find('.') != std::string::npos && !is_address(host);
}

}  // namespace

// Who may ask for what a path names, as far as the path alone says it.
void HttpApi::check_role(const HttpRequest& request, const Path& path) {
  const bool changes = request.method == "POST";
  const auto is = [&](std::size_t at, std::string_view name) { return path.size() > at && path[at] == name; };
  if (!is(0, "v2") || path.size() < 2 || is(1, "health")) return;
  if (is_inference(path) || is_generation(path)) return service_.admit_inference(request.credentials, path[2]);
  if (is(1, "systemsharedmemory") || is(1, "cudasharedmemory"))
    return service_.require_role(request.credentials, Role::infer);
  const bool manages = changes && ((is(1, "repository") && is(2, "models")) || is(1, "logging") || is(1, "trace"));
  const bool has_model = path.size() > 3 && (is(1, "models") || is(2, "models"));
  service_.require_role(request.credentials, manages ? Role::manage : Role::read,
                        !has_model        ? ""
                        : is(1, "models") ? path[2]
                                          : path[3]);
}

// A web page makes its visitor's browser send requests to servers that only the visitor reaches. Browsers say whose
// page it is (Origin), and a name that the page's owner points at this machine stands in Host.
void HttpApi::check_sender(const HttpRequest& request, const Path& path) const {
  const std::string host = host_name(request.host);
  const bool checks_host = options_.is_loopback_only || !options_.hosts.empty();
  if (checks_host && may_be_strange(host) && std::ranges::find(options_.hosts, host) == options_.hosts.end())
    throw Failure(Reason::forbidden, fmt::format("the server is not known as '{}': the key 'hosts' of its "
                                                 "configuration lists its names",
                                                 base::shown(host)));
  if (!request.origin.empty() && std::ranges::find(options_.origins, request.origin) == options_.origins.end()) {
    const std::size_t scheme = request.origin.find("://");
    if (scheme == std::string::npos || request.origin.substr(scheme + 3) != request.host)
      throw Failure(Reason::forbidden,
                    "web pages of other sites may not use this server: the key 'origins' of its "
                    "configuration lists those that may");
  }
  if (request.method == "POST" && !is_inference(path) && !is_generation(path) && is_form(request.content_type))
    throw Failure(Reason::unsupported_media,
                  "a request that changes the server's state must have the content type "
                  "application/json");
}

Admission HttpApi::admit(const HttpRequest& header) {
  Admission admission;
  try {
    const Path path = split_path(header.path);
    check_sender(header, path);
    check_role(header, path);
    admission.most_body_bytes = is_inference(path) ? options_.most_body_bytes : kMostOtherBodyBytes;
  } catch (...) {
    admission.refusal = failure_response(current_failure());
  }
  return admission;
}

Admission HttpApi::admit_metrics(const HttpRequest&) {
  return {std::nullopt, kMostOtherBodyBytes};
}

}  // namespace tessera::serve
