#include "support/guarded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "base/text.h"
#include "support/sanitized.h"

namespace tessera::test {
namespace {

constexpr double kMostSeconds = kSanitized ? 50 : 5;
constexpr std::int64_t kMostResidentBytes = std::int64_t{512} << 20;
constexpr unsigned kPatienceSeconds = kSanitized ? 200 : 30;

void limit(int resource, rlim_t most) {
  const rlimit both{most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

// What the child says: 'r' returned, 'e' and the kind and text of an Error, 'x' and the text of another exception.
std::string report_of(const std::function<void()>& body) {
  try {
    body();
    return "r";
  } catch (const Error& error) {
    return std::string("e") + static_cast<char>('0' + static_cast<int>(error.kind())) + error.what();
  } catch (const std::exception& error) {
    return std::string("x") + error.what();
  }
}

[[noreturn]] void be_child(int out, const std::function<void()>& body) {
  limit(RLIMIT_CORE, 0);
  // Address space is not memory; sanitizers reserve terabytes of it.
  if (!kSanitized) limit(RLIMIT_AS, rlim_t{6} << 30);
  alarm(kPatienceSeconds);
  const std::string report = report_of(body);
  std::size_t done = 0;
  while (done < report.size()) {
    const ssize_t written = write(out, report.data() + done, report.size() - done);
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  _exit(0);
}

std::string read_all(int in) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(in, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

std::int64_t resident_now() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident_pages = 0;
  file >> pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

Outcome run_guarded(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  // A child counts what it shares with its parent.
  const std::int64_t before = resident_now();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    close(ends[0]);
    be_child(ends[1], body);
  }
  close(ends[1]);
  const std::string report = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  Outcome outcome;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  outcome.seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  outcome.resident_bytes = usage.ru_maxrss * 1024 - before;
  if (WIFSIGNALED(status)) outcome.crash = strsignal(WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0) outcome.crash = "exit status " + std::to_string(WEXITSTATUS(status));
  else if (report.empty()) outcome.crash = "no report";
  else if (report[0] == 'x') outcome.crash = "exception: " + report.substr(1);
  if (outcome.crash.empty() && report[0] == 'e') {
    outcome.kind = static_cast<ErrorKind>(report[1] - '0');
    outcome.text = report.substr(2);
  }
  return outcome;
}

Outcome expect_harmless(const std::string& what, const std::function<void()>& body) {
  const Outcome outcome = run_guarded(body);
  EXPECT_EQ(outcome.crash, "") << what;
  EXPECT_LT(outcome.seconds, kMostSeconds) << what << ": " << outcome.text;
  if (!kSanitized) {
    EXPECT_LT(outcome.resident_bytes, kMostResidentBytes) << what << ": " << outcome.text;
  }
  EXPECT_EQ(outcome.text, base::printable(outcome.text)) << what;
  EXPECT_LT(outcome.text.size(), 20'000U) << what;
  return outcome;
}

void expect_refused(const std::string& what, ErrorKind kind, const std::string& part,
                    const std::function<void()>& body) {
  const Outcome outcome = expect_harmless(what, body);
  if (!outcome.crash.empty()) return;
  if (!outcome.kind) {
    ADD_FAILURE() << what << ": no error, expected: " << part;
    return;
  }
  EXPECT_EQ(to_string(*outcome.kind), to_string(kind)) << what << ": " << outcome.text;
  EXPECT_THAT(outcome.text, testing::HasSubstr(part)) << what;
}

}  // namespace tessera::test
