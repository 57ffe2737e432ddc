#include "serve/core/audit_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "serve/core/digest.h"
#include "serve/core/log.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

const std::string kNoHash(64, '0');
constexpr std::size_t kHashDigits = 64;
constexpr std::string_view kEnding = "\"}";
constexpr std::string_view kHashKey = ",\"hash\":\"";
constexpr std::string_view kPreviousKey = "\"previous\":\"";
constexpr std::string_view kSequenceKey = "{\"sequence\":";

// A line: {"sequence":7,"previous":"…",…,"hash":"…"}. The hash is of what stands before its key.
struct Line {
  std::string_view text, hash, previous;
  std::int64_t sequence = 0;
  bool is_whole = false;
};

Line parse(std::string_view line) {
  Line parsed;
  const std::size_t ending = kHashKey.size() + kHashDigits + kEnding.size();
  if (line.size() < ending + kSequenceKey.size() || !line.starts_with(kSequenceKey)) return parsed;
  const std::string_view tail = line.substr(line.size() - ending);
  if (!tail.starts_with(kHashKey) || !tail.ends_with(kEnding)) return parsed;
  parsed.text = line.substr(0, line.size() - ending);
  parsed.hash = tail.substr(kHashKey.size(), kHashDigits);
  const std::size_t at = parsed.text.find(kPreviousKey);
  if (at == std::string_view::npos || at > 64 || parsed.text.size() < at + kPreviousKey.size() + kHashDigits)
    return parsed;
  parsed.previous = parsed.text.substr(at + kPreviousKey.size(), kHashDigits);
  for (const char c : parsed.text.substr(kSequenceKey.size())) {
    if (c < '0' || c > '9' || parsed.sequence > 1'000'000'000'000'000) break;
    parsed.sequence = parsed.sequence * 10 + (c - '0');
  }
  parsed.is_whole = true;
  return parsed;
}

std::string time_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(std::chrono::system_clock::now()));
}

}  // namespace

AuditLog::AuditLog(const std::filesystem::path& path, std::int64_t most_bytes)
    : path_(path), most_bytes_(most_bytes), last_hash_(kNoHash) {
  descriptor_ = open_file();
  try {
    const Extent extent = follow(path_);
    bytes_ = extent.bytes;
    // A server that was killed after it had renamed the file may have left an empty one, or none.
    if (const int newest = newest_rotated(); bytes_ == 0 && newest > 0) follow(rotated(newest));
    if (extent.is_cut_off) repair();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AuditLog::~AuditLog() {
  ::close(descriptor_);
}

// Locked for this process.
int AuditLog::open_file() const {
  const int descriptor = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  require(descriptor >= 0, ErrorKind::io, "the audit log {} cannot be opened: {}", path_.string(),
          std::strerror(errno));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  fail(ErrorKind::io, "another server writes the audit log {}", path_.string());
}

std::filesystem::path AuditLog::rotated(int number) const {
  return path_.string() + fmt::format(".{}", number);
}

int AuditLog::newest_rotated() const {
  int number = 0;
  while (std::filesystem::exists(rotated(number + 1))) ++number;
  return number;
}

// Takes the place in the chain from the last whole line of a file.
AuditLog::Extent AuditLog::follow(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  Extent extent;
  while (std::getline(file, line)) {
    const Line parsed = parse(line);
    extent.is_cut_off = file.eof();  // no newline behind it
    if (extent.is_cut_off) break;
    require(parsed.is_whole, ErrorKind::invalid_argument, "{} is no audit log of Tessera", path.string());
    last_hash_ = parsed.hash;
    sequence_ = parsed.sequence;
    extent.bytes += static_cast<std::int64_t>(line.size()) + 1;
  }
  return extent;
}

void AuditLog::repair() {
  require(cut_to(bytes_), ErrorKind::io, "the audit log {} cannot be repaired: {}", path_.string(),
          std::strerror(errno));
  append({"server", "repair", "", "a line that was cut off has been removed", ""});
}

bool AuditLog::cut_to(std::int64_t bytes) {
  has_rest_ = ::ftruncate(descriptor_, bytes) != 0;
  return !has_rest_;
}

// All of it is on disk when this returns; nothing of it is in the file when it throws, or has_rest_ is set.
void AuditLog::write_durably(std::string_view line) {
  bool is_written = true;
  while (is_written && !line.empty()) {
    const ssize_t count = ::write(descriptor_, line.data(), line.size());
    if (count < 0 && errno == EINTR) continue;
    is_written = count > 0;
    if (is_written) line.remove_prefix(static_cast<std::size_t>(count));
  }
  // A file system may find out only here that the disk is full. What is no file (EINVAL) cannot be told to be durable.
  is_written = is_written && (::fdatasync(descriptor_) == 0 || errno == EINVAL);
  if (is_written) return;
  cut_to(bytes_);
  throw Failure(Reason::unavailable, "the audit log cannot be written", 5);
}

void AuditLog::append(const AuditEvent& event) {
  std::string line =
      fmt::format("{}{},{}{}\",\"time\":\"{}\"", kSequenceKey, sequence_ + 1, kPreviousKey, last_hash_, time_text());
  const auto add = [&](const char* key, const std::string& value) {
    line += fmt::format(",\"{}\":", key);
    append_json_text(value, line);
  };
  add("caller", event.caller);
  add("action", event.action);
  add("model", event.model);
  add("result", event.result);
  add("address", event.address);
  const std::string hash = sha256(line);
  line += fmt::format("{}{}{}\n", kHashKey, hash, kEnding);
  write_durably(line);
  bytes_ += static_cast<std::int64_t>(line.size());
  ++sequence_;
  last_hash_ = hash;
}

// Where no second file can be made, the first one grows on, and the next line tries again.
void AuditLog::rotate() {
  const std::filesystem::path old = rotated(newest_rotated() + 1);
  std::error_code error;
  std::filesystem::rename(path_, old, error);
  if (error) return;
  try {
    const int next = open_file();
    ::close(std::exchange(descriptor_, next));
    bytes_ = 0;
  } catch (const Error& failure) {
    std::filesystem::rename(old, path_, error);
    log(Level::warning, "the audit log could not be rotated", {{"why", failure.what()}});
  }
}

void AuditLog::write(const AuditEvent& event) {
  const std::lock_guard lock(mutex_);
  if (has_rest_ && !cut_to(bytes_)) throw Failure(Reason::unavailable, "the audit log cannot be written", 5);
  if (bytes_ >= most_bytes_) rotate();
  append(event);
}

AuditVerdict verify_audit_log(const std::filesystem::path& path, const std::string& continues) {
  std::ifstream file(path);
  require(file.is_open(), std::filesystem::exists(path) ? ErrorKind::io : ErrorKind::not_found,
          "the audit log {} cannot be read", path.string());
  AuditVerdict verdict;
  std::string line, expected = continues;
  std::int64_t sequence = 0;
  const auto wrong = [&](const char* mistake) {
    verdict.first_wrong_line = verdict.lines;
    verdict.mistake = mistake;
    return verdict;
  };
  while (std::getline(file, line)) {
    ++verdict.lines;
    const Line parsed = parse(line);
    if (!parsed.is_whole || file.eof()) return wrong("the line is cut off or was never written by the server");
    if (sha256(parsed.text) != parsed.hash) return wrong("the line was changed: its hash is another one");
    if (!expected.empty() && parsed.previous != expected)
      return wrong("the line does not follow the one before it: lines were removed, added or moved");
    if (sequence != 0 && parsed.sequence != sequence + 1) return wrong("the line's number does not follow");
    if (verdict.lines == 1) {
      verdict.first_previous = parsed.previous;
      if (parsed.previous == kNoHash && parsed.sequence != 1) return wrong("the first line's number is not 1");
    }
    expected = parsed.hash;
    sequence = parsed.sequence;
  }
  verdict.last_hash = expected;
  return verdict;
}

}  // namespace tessera::serve
