// Why a request was refused, in terms that a client of either protocol understands.
#pragma once

#include <stdexcept>
#include <string>

namespace tessera::serve {

enum class Reason {
  bad_request,
  unauthenticated,    // no token, or one that nobody has
  forbidden,          // the caller's roles do not allow it
  not_found,          // no such model, version or address
  method,             // the address takes another method
  too_large,          // a body or a header beyond its limit
  unsupported,        // legal, but not offered here
  unsupported_media,  // a content type that the address does not take
  rate_limited,       // more requests than the caller's key allows
  cancelled,          // the client went away
  exhausted,          // the bytes that all requests and answers may hold are used up
  unavailable,        // queue full, draining, or the deadline cannot be met: worth trying again later
  deadline_exceeded,  // the deadline passed while the request waited or computed
  internal,
};

// The error that calls throw and completions receive. The message is for the client: no paths, no names of internal
// parts.
class Failure : public std::runtime_error {
 public:
  Failure(Reason reason, const std::string& message, double retry_after_s = 0)
      : std::runtime_error(message), reason_(reason), retry_after_s_(retry_after_s) {}

  Reason reason() const { return reason_; }
  // For unavailable, exhausted and rate_limited: when it is worth trying again; 0: unknown.
  double retry_after_s() const { return retry_after_s_; }

 private:
  Reason reason_;
  double retry_after_s_;
};

// HTTP's status code for a reason (RFC 9110; 499 is the usual code for a client that went away).
int http_status(Reason reason);

// The exception in flight as a Failure. A tessera::Error about the request keeps its message, without the places
// that it passed through; what concerns the server's inside becomes a general sentence. Call it in a catch block.
Failure current_failure();

}  // namespace tessera::serve
