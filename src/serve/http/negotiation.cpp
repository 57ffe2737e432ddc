#include "serve/http/negotiation.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstdlib>
#include <optional>

namespace tessera::serve {
namespace {

constexpr std::size_t kLeastCompressedBytes = 1024;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  return result;
}

// The weight of a list's element ";q=0.5", 1 without one.
double weight(std::string_view parameters) {
  const std::string text = lower(parameters);
  const std::size_t at = text.find("q=");
  return at == std::string::npos ? 1 : std::strtod(text.c_str() + at + 2, nullptr);
}

// The weight that the list gives the coding, by its name or by "*"; 0 where it names neither.
double weight_of(std::string_view coding, std::string_view accepted) {
  std::optional<double> by_name, by_star;
  while (!accepted.empty()) {
    const std::size_t end = std::min(accepted.find(','), accepted.size());
    const std::string_view element = accepted.substr(0, end);
    accepted.remove_prefix(std::min(end + 1, accepted.size()));
    const std::size_t semicolon = std::min(element.find(';'), element.size());
    const std::string name = lower(trimmed(element.substr(0, semicolon)));
    if (name == coding) by_name = weight(element.substr(semicolon));
    else if (name == "*") by_star = weight(element.substr(semicolon));
  }
  return by_name.value_or(by_star.value_or(0));
}

}  // namespace

const char* wanted_coding(std::size_t bytes, std::string_view accepted) {
  if (bytes < kLeastCompressedBytes || accepted.empty()) return nullptr;
  const double gzip = weight_of("gzip", accepted), deflate = weight_of("deflate", accepted);
  if (!(gzip > 0) && !(deflate > 0)) return nullptr;
  return gzip >= deflate ? "gzip" : "deflate";
}

std::string host_name(std::string_view host) {
  const std::size_t bracket = host.find(']');
  if (host.starts_with('[') && bracket != std::string_view::npos) return lower(host.substr(1, bracket - 1));
  return lower(host.substr(0, host.rfind(':')));
}

bool is_address(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

bool is_form(std::string_view content_type) {
  const std::string type = lower(trimmed(content_type.substr(0, content_type.find(';'))));
  return type == "text/plain" || type == "multipart/form-data" || type == "application/x-www-form-urlencoded";
}

}  // namespace tessera::serve
