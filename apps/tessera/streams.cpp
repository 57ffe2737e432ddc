#include "streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <system_error>

#include "base/error.h"

namespace tessera::apps {
namespace {

bool has_colours() {
  const char *refused = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && (refused == nullptr || *refused == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

// `code` is the value of errno, or 0 if it is not known.
[[noreturn]] void refuse_output(int code) {
  if (code == EPIPE) std::_Exit(128 + SIGPIPE);
  fail(ErrorKind::io, "cannot write to standard output: {}",
       code != 0 ? std::generic_category().message(code) : std::string("a write failed"));
}

void print_line(std::string_view colour, std::string_view prefix, std::string_view text) {
  // Written by one call, so that lines of several processes do not mix.
  const std::string line = has_colours() ? fmt::format("\x1b[{}m{}\x1b[0m {}\n", colour, prefix, text)
                                         : fmt::format("{} {}\n", prefix, text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void guard_standard_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    // open() returns the smallest free descriptor, which is this one. It is opened for the wrong direction, so that
    // reads from stdin and writes to stdout fail; writes to stderr are lost.
    const int how = number == STDOUT_FILENO ? O_RDONLY : O_WRONLY;
    if (::open("/dev/null", how) != number) std::_Exit(exit_code(ErrorKind::io));
  }
  // exceeding the limit on file sizes becomes an error of the write instead of ending the process
  ::signal(SIGXFSZ, SIG_IGN);
}

void finish_output() {
  errno = 0;
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0;
  if (!written || std::ferror(stdout) != 0 || !std::cout) refuse_output(errno);
}

void check_output_error(const std::system_error& error) {
  if (std::ferror(stdout) != 0) refuse_output(error.code().value());
}

void print_error(std::string_view text) {
  print_line("1;31", "tessera:", text);
}

void print_warning(std::string_view text) {
  print_line("1;33", "tessera: warning:", text);
}

}  // namespace tessera::apps
