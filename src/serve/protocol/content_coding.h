// Bodies that are compressed on the way: gzip and deflate (RFC 9110, 8.4).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tessera::serve {

// Throws Failure: bad_request for data that are malformed, cut off or followed by others; too_large as soon as the
// result has more than max_bytes; unsupported for a coding other than "gzip", "deflate" and "identity"; exhausted as
// soon as `take` returns false, which is asked for each part of the result before it is kept (none: nothing counts).
std::string decode_content(std::string_view coding, std::string_view body, std::int64_t max_bytes,
                           const std::function<bool(std::int64_t)>& take = {});

// The coding is "gzip" or "deflate".
std::string encode_content(std::string_view coding, std::string_view body);

}  // namespace tessera::serve
