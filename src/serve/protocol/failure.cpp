#include "serve/protocol/failure.h"

#include <new>

#include "tessera/error.h"

namespace tessera::serve {

int http_status(Reason reason) {
  switch (reason) {
    case Reason::bad_request:
      return 400;
    case Reason::unauthenticated:
      return 401;
    case Reason::forbidden:
      return 403;
    case Reason::not_found:
      return 404;
    case Reason::method:
      return 405;
    case Reason::too_large:
      return 413;
    case Reason::unsupported:
      return 501;
    case Reason::unsupported_media:
      return 415;
    case Reason::rate_limited:
      return 429;
    case Reason::cancelled:
      return 499;
    case Reason::exhausted:
    case Reason::unavailable:
      return 503;
    case Reason::deadline_exceeded:
      return 504;
    case Reason::internal:
      return 500;
  }
  return 500;
}

Failure current_failure() {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure;
  } catch (const Error& error) {
    switch (error.kind()) {
      case ErrorKind::invalid_argument:
        return {Reason::bad_request, error.message()};
      // The model was loaded, so it is right for some inputs.
      case ErrorKind::invalid_model:
        return {Reason::bad_request, "the model cannot compute inputs of these shapes: " + error.message()};
      case ErrorKind::failed:
        return {Reason::bad_request, "the model failed on this input: " + error.message()};
      case ErrorKind::over_budget:
        return {Reason::unavailable, "the request is over the server's budget", 1};
      case ErrorKind::cancelled:
        return {Reason::cancelled, "the request was cancelled"};
      case ErrorKind::unsupported:
        return {Reason::unsupported, "the model asks for what this server does not have"};
      default:
        return {Reason::internal, "the request failed inside the server; its log says why"};
    }
  } catch (const std::bad_alloc&) {
    return {Reason::unavailable, "the server is short of memory", 1};
  } catch (...) {
    return {Reason::internal, "the request failed inside the server; its log says why"};
  }
}

}  // namespace tessera::serve
