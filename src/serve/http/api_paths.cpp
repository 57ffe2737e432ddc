#include "serve/http/api_paths.h"

#include <algorithm>
#include <charconv>

#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

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

// /v2/models/NAME[/versions/VERSION]/…
bool is_of_model(const std::vector<std::string>& path) {
  return path.size() >= 4 && path[0] == "v2" && path[1] == "models" &&
         (path.size() == 4 || (path.size() == 6 && path[3] == "versions"));
}

}  // namespace

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(decoded(path.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

bool is_inference(const std::vector<std::string>& path) {
  return is_of_model(path) && path.back() == "infer";
}

bool is_generation(const std::vector<std::string>& path) {
  return is_of_model(path) && (path.back() == "generate" || path.back() == "generate_stream");
}

HttpResponse failure_response(const Failure& failure) {
  HttpResponse response;
  response.status = http_status(failure.reason());
  response.body = "{\"error\":" + json_text(failure.what()) + "}";
  if (failure.reason() == Reason::unavailable || failure.reason() == Reason::exhausted ||
      failure.reason() == Reason::rate_limited)
    response.headers.emplace_back("Retry-After",
                                  fmt::format("{}", std::max(1, static_cast<int>(failure.retry_after_s() + 0.999))));
  if (failure.reason() == Reason::unauthenticated) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace tessera::serve
