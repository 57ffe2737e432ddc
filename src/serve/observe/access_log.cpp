#include "serve/observe/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "serve/core/operations/log.h"
#include "serve/protocol/response_encoder.h"
#include "tessera/clock.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostWaitingBytes = 4 << 20, kMostPathBytes = 1024;
constexpr std::chrono::milliseconds kGather{100}, kPause{1000};

std::string time_text(std::int64_t ns_ago) {
  using namespace std::chrono;
  const auto now = system_clock::now() - nanoseconds(ns_ago);
  const auto ms = duration_cast<milliseconds>(now.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(system_clock::to_time_t(now)), ms % 1000);
}

}  // namespace

std::string access_line(const AccessRecord& record) {
  std::string line = "{";
  const auto name = [&](std::string_view key) {
    if (line.size() > 1) line += ',';
    append_json_text(key, line);
    line += ':';
  };
  const auto text = [&](std::string_view key, const std::string& value) {
    name(key);
    append_json_text(base::shortened(value, kMostPathBytes), line);
  };
  const auto number = [&](std::string_view key, std::int64_t value) {
    name(key);
    line += std::to_string(value);
  };
  text("time", time_text(Clock::steady().now_ns() - record.began_ns));
  text("id", record.id);
  text("peer", record.peer);
  text("key", record.key);
  text("protocol", record.protocol);
  text("method", record.method);
  text("path", record.path);
  text("model", record.model);
  number("status", record.status);
  number("bytes_in", record.bytes_in);
  number("bytes_out", record.bytes_out);
  number("duration_us", (record.ended_ns - record.began_ns) / 1000);
  number("queue_us", record.queue_ns / 1000);
  number("run_us", record.run_ns / 1000);
  return line + "}\n";
}

AccessLog::AccessLog(const AccessLogOptions& options) : options_(options) {
  require(open(), ErrorKind::io, "the access log {} cannot be opened: {}", options_.file, std::strerror(errno));
  thread_ = std::thread([this] { run(); });
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
  ::close(descriptor_);
}

bool AccessLog::open() {
  if (options_.file == "-") descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  else descriptor_ = ::open(options_.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return false;
  struct stat status{};
  bytes_ = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : 0;
  return true;
}

void AccessLog::add(const AccessRecord& record) {
  const std::string line = access_line(record);
  const std::lock_guard lock(mutex_);
  if (waiting_.size() + line.size() > kMostWaitingBytes) {
    ++lost_;
    ++untold_;
    return;
  }
  const bool was_empty = waiting_.empty();
  waiting_ += line;
  ++waiting_lines_;
  if (was_empty) changed_.notify_one();
}

void AccessLog::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
    if (!stops_) changed_.wait_for(lock, kGather, [this] { return stops_; });  // a little later there is more
    if (waiting_.empty()) return;
    std::string text = std::exchange(waiting_, {});
    const std::uint64_t lines = std::exchange(waiting_lines_, 0), untold = std::exchange(untold_, 0);
    lock.unlock();
    if (untold > 0) text += fmt::format("{{\"time\":\"{}\",\"lost_lines\":{}}}\n", time_text(0), untold);
    const bool is_written = write(text);
    lock.lock();
    if (is_written) continue;
    lost_ += lines;
    untold_ += lines + untold;
    changed_.wait_for(lock, kPause, [this] { return stops_; });
    if (stops_) return;
  }
}

bool AccessLog::write(const std::string& text) {
  if (bytes_ >= options_.most_bytes && options_.file != "-") rotate();
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  bytes_ += static_cast<std::int64_t>(text.size());
  return true;
}

// Where no second file can be made, the first one grows on, and the next line tries again.
void AccessLog::rotate() {
  const auto rotated = [&](std::int64_t number) { return fmt::format("{}.{}", options_.file, number); };
  std::error_code error;
  std::filesystem::remove(rotated(options_.most_files), error);
  for (std::int64_t number = options_.most_files - 1; number >= 1; --number)
    std::filesystem::rename(rotated(number), rotated(number + 1), error);
  std::filesystem::rename(options_.file, rotated(1), error);
  const int old = descriptor_;
  if (!error && open()) {
    ::close(old);
    return;
  }
  descriptor_ = old;
  log(Level::warning, "the access log could not be rotated", {{"file", options_.file}});
}

}  // namespace tessera::serve
