// Reads the fields of a request's header about its sender and the wanted answer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::serve {

// The coding for an answer of so many bytes by the field Accept-Encoding (RFC 9110, 12.5.3): "gzip", "deflate", or null
// for none, also where the answer is short. If both have the same weight, "gzip".
const char* wanted_coding(std::size_t bytes, std::string_view accepted);

// The host of "host[:port]", in lower case and without the brackets of an IPv6 address.
std::string host_name(std::string_view host);
// Whether it is an IPv4 or IPv6 address.
bool is_address(const std::string& host);

// Whether a browser sends this content type to other sites without asking them first (the safelisted ones of
// https://fetch.spec.whatwg.org/#cors-safelisted-request-header).
bool is_form(std::string_view content_type);

}  // namespace tessera::serve
