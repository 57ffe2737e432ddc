// The name of a request, by which logs, traces and clients speak of it.
#pragma once

#include <string>
#include <string_view>

namespace tessera::serve {

// Returns the client's X-Request-Id, if that has 1 to 128 letters, digits and characters of "-_.:/+=@"; else a new
// one of 16 hexadecimal digits. Thread-safe.
std::string request_id(std::string_view given);

}  // namespace tessera::serve
