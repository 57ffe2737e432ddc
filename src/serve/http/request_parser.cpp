#include "serve/http/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>

namespace tessera::serve {
namespace beast = boost::beast;
namespace http = beast::http;
namespace {

// Extensions are names of a few bytes for each chunk: this much in a whole body is an attack.
constexpr std::size_t kMostExtensionBytes = 16 << 10;

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

// Characters of uri-host [ ":" port ] (RFC 3986, 3.2.2).
bool is_host(std::string_view host) {
  return std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~%!$&'()*+,;=:[]").find(c) != std::string_view::npos;
  });
}

std::size_t count(const RequestParser::Fields& fields, std::string_view name) {
  return fields.count(beast::string_view(name.data(), name.size()));
}

}  // namespace

RequestParser::RequestParser(std::size_t header_bytes) : header_bytes_(header_bytes) {
  header_limit(static_cast<std::uint32_t>(header_bytes));
  eager(false);
}

std::string_view RequestParser::value(std::string_view name) const {
  return view(fields_[beast::string_view(name.data(), name.size())]);
}

void RequestParser::refuse(int status, std::string_view text, ErrorCode& error) {
  mistake_ = {status, std::string(text)};
  error = http::error::bad_value;
}

void RequestParser::on_request_impl(http::verb, Text method, Text target, int version, ErrorCode& error) {
  method_ = view(method);
  target_ = view(target);
  version_ = version;
  // Addresses with a scheme are for proxies, "*" for OPTIONS: this is neither.
  if (!target_.starts_with('/')) refuse(400, "the request's target does not begin with '/'", error);
}

void RequestParser::on_field_impl(http::field, Text name, Text value, ErrorCode& error) {
  if (header_is_over_) {
    trailer_bytes_ += name.size() + value.size();
    if (trailer_bytes_ > header_bytes_) refuse(431, "the trailer section is too large", error);
    return;
  }
  if (name.size() + value.size() > header_bytes_) return refuse(431, "the header is too large", error);
  fields_.insert(name, value);
}

void RequestParser::check_framing() {
  const auto mistake = [&](std::string text) { mistake_ = {400, std::move(text)}; };
  const std::size_t codings = count(fields_, "Transfer-Encoding"), lengths = count(fields_, "Content-Length");
  if (codings > 0 && lengths > 0) mistake("a request cannot have both Content-Length and Transfer-Encoding");
  else if (codings > 1) mistake("the header has several fields Transfer-Encoding");
  else if (lengths > 1) mistake("the header has several fields Content-Length");
  else if (codings == 1 && version_ < 11) mistake("HTTP/1.0 has no Transfer-Encoding");
  else if (codings == 1 && !beast::iequals(fields_["Transfer-Encoding"], "chunked"))
    mistake("the only transfer coding that is taken is 'chunked'");
  else if (lengths == 1 && value("Content-Length").find_first_not_of("0123456789") != std::string_view::npos)
    mistake("Content-Length is no number");
  const std::size_t hosts = count(fields_, "Host");
  if (version_ >= 11 && hosts != 1)
    mistake(hosts == 0 ? "the field Host is missing" : "the header has several fields Host");
  else if (hosts > 0 && !is_host(value("Host"))) mistake("the field Host names no host");
}

void RequestParser::on_header_impl(ErrorCode& error) {
  header_is_over_ = true;
  check_framing();
  if (mistake_.status != 0) error = http::error::bad_value;
}

std::size_t RequestParser::on_body_impl(Text body, ErrorCode&) {
  body_.append(view(body));
  return body.size();
}

void RequestParser::on_chunk_header_impl(std::uint64_t, Text extensions, ErrorCode& error) {
  extension_bytes_ += extensions.size();
  if (extension_bytes_ > kMostExtensionBytes) refuse(431, "the chunk extensions are too large", error);
}

std::size_t RequestParser::on_chunk_body_impl(std::uint64_t, Text body, ErrorCode&) {
  body_.append(view(body));
  return body.size();
}

RequestParser::Mistake RequestParser::mistake(const boost::system::error_code& error) const {
  if (mistake_.status != 0) return mistake_;
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return {431, "the header is too large"};
  if (error == http::error::body_limit) return {413, "the body is too large"};
  if (error == http::error::bad_content_length) return {400, "Content-Length is no number, or there are several"};
  if (error == http::error::bad_transfer_encoding) return {400, "Transfer-Encoding cannot be understood"};
  return {400, "the request is malformed"};
}

}  // namespace tessera::serve
