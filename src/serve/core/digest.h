// SHA-256 (FIPS 180-4), by OpenSSL.
#pragma once

#include <string>
#include <string_view>

namespace tessera::serve {

// 64 hexadecimal digits, lower case.
std::string sha256(std::string_view bytes);

// Whether two texts are equal, in a time that depends on their lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace tessera::serve
