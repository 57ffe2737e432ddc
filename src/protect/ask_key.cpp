// Keys from commands and passwords from the terminal.
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "protect/key_file.h"

extern char** environ;

namespace tessera::protect {
namespace {

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// Reads until the end or until the memory is full; returns the number of bytes.
std::size_t read_all(int file, Secret& to) {
  std::size_t size = 0;
  while (size < to.size()) {
    const ::ssize_t got = ::read(file, to.data() + size, to.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  return size;
}

// Starts the command with its output in a pipe.
::pid_t start(const std::string& command, int output) {
  ::posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  std::string shell = "sh", option = "-c", text = command;
  char* const arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  ::pid_t process = -1;
  const int error = ::posix_spawn(&process, "/bin/sh", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  require(error == 0, ErrorKind::io, "the key command cannot be started: {}", std::generic_category().message(error));
  return process;
}

// The terminal without echo while this lives.
class QuietTerminal {
 public:
  explicit QuietTerminal(int terminal) : terminal_(terminal) {
    changed_ = ::tcgetattr(terminal, &before_) == 0;
    ::termios quiet = before_;
    quiet.c_lflag &= ~static_cast<::tcflag_t>(ECHO);
    changed_ = changed_ && ::tcsetattr(terminal, TCSAFLUSH, &quiet) == 0;
  }
  ~QuietTerminal() {
    if (changed_) ::tcsetattr(terminal_, TCSAFLUSH, &before_);
  }
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

 private:
  int terminal_;
  ::termios before_{};
  bool changed_ = false;
};

Secret ask(int terminal, std::string_view prompt) {
  const auto say = [&](std::string_view text) { return ::write(terminal, text.data(), text.size()) >= 0; };
  say(prompt);
  const QuietTerminal quiet(terminal);
  Secret line(kMostKeyFileBytes);
  const ::ssize_t got = ::read(terminal, line.data(), line.size());  // a line
  say("\n");
  std::size_t size = got > 0 ? static_cast<std::size_t>(got) : 0;
  while (size > 0 && (line.data()[size - 1] == '\n' || line.data()[size - 1] == '\r')) --size;
  require(size > 0, ErrorKind::invalid_argument, "no password was given");
  return Secret::copy_of(line.first(size));
}

}  // namespace

Key read_key_of_command(const std::string& command) {
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC) == 0, ErrorKind::io, "no pipe for the key command: {}",
          std::generic_category().message(errno));
  const Descriptor from{ends[0]};
  ::pid_t process = -1;
  {
    const Descriptor to{ends[1]};
    process = start(command, to.number);
  }
  Secret text(kMostKeyFileBytes + 1);
  const std::size_t size = read_all(from.number, text);
  if (size > kMostKeyFileBytes) ::kill(process, SIGTERM);  // it would wait for a reader
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  require(size <= kMostKeyFileBytes, ErrorKind::invalid_argument,
          "the key command prints more than {} bytes, expected one key", kMostKeyFileBytes);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, ErrorKind::failed,
          "the key command failed with {} {}; what it says is above", WIFEXITED(status) ? "status" : "signal",
          WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  return parse_key(text.first(size), "the output of the key command");
}

Secret ask_password(bool twice) {
  const Descriptor terminal{::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
  require(terminal.number >= 0, ErrorKind::invalid_argument,
          "there is no terminal to ask for the password on; name a file with it by --password-file");
  Secret first = ask(terminal.number, twice ? "New password: " : "Password: ");
  if (!twice) return first;
  const Secret second = ask(terminal.number, "The same again: ");
  require(first.size() == second.size() && sodium_memcmp(first.data(), second.data(), first.size()) == 0,
          ErrorKind::invalid_argument, "the two passwords differ");
  return first;
}

}  // namespace tessera::protect
