#include "base/error.h"

#include <cstdio>
#include <cstdlib>

#include "base/assert.h"

namespace tessera {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid argument";
    case ErrorKind::invalid_model:
      return "invalid model";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::not_found:
      return "not found";
    case ErrorKind::io:
      return "input/output error";
    case ErrorKind::over_budget:
      return "over budget";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::failed:
      return "run failed";
  }
  return "error";
}

int exit_code(ErrorKind kind) {
  return static_cast<int>(kind) + 2;
}

namespace {

// Names from a file appear in messages: they must neither move a terminal's cursor nor fill the screen.
constexpr std::size_t kMostMessageBytes = 16'384, kMostPlaceBytes = 500;

}  // namespace

Error::Error(ErrorKind kind, std::string message)
    : std::runtime_error(""),
      kind_(kind),
      message_(base::printable(base::shortened(message, kMostMessageBytes))),
      full_(message_) {}

Error& Error::add_context(std::string place) {
  context_.push_back(base::printable(base::shortened(place, kMostPlaceBytes)));
  full_ = message_ + " (";
  for (std::size_t i = 0; i < context_.size(); ++i) full_ += (i ? ", in " : "in ") + context_[i];
  full_ += ")";
  return *this;
}

namespace base {

void assertion_failed(const char* condition, const char* file, int line, const char* note) {
  std::fprintf(stderr, "internal error (a bug in Tessera, please report it): %s\n  %s:%d: %s does not hold\n", note,
               file, line, condition);
  std::abort();
}

}  // namespace base
}  // namespace tessera
