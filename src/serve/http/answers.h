// The answers that a connection makes by itself, and the header of any answer.
#pragma once

#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace tessera::serve {

HttpResponse refusal(int status, std::string_view message);
HttpResponse out_of_budget();

// How the end of a body is told (RFC 9112, 6.3). A body that is made while it is sent is in chunks, or ends with the
// connection where the client speaks HTTP/1.0.
enum class Framing { content_length, chunked, until_close };

// The status line and the fields, with the empty line behind them.
std::string response_header(const HttpResponse& response, bool keep_alive, std::string_view request_id,
                            Framing framing = Framing::content_length);

// The line of the access log for a request.
std::shared_ptr<AccessRecord> make_record(const HttpRequest& head, const std::string& peer);
void end_record(AccessRecord& record, int status, std::int64_t bytes_in, std::size_t bytes_out, std::int64_t lasted_ns);

}  // namespace tessera::serve
