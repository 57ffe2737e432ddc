#include "serve/core/operations/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "serve/core/operations/audit_line.h"
#include "serve/core/operations/log.h"
#include "serve/protocol/failure.h"
#include "tessera/clock.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostEvents = 8192, kMostWaitingBytes = 4 << 20;
constexpr std::int64_t kMostRefusalLines = 50;  // in a second
constexpr std::chrono::seconds kSecond{1};
constexpr std::chrono::milliseconds kPause{100};  // between tries to write where the disk takes nothing
constexpr std::size_t kLineBytes = 256;           // of a line beside what the event says

std::size_t bytes_of(const AuditEvent& event) {
  return kLineBytes + event.caller.size() + event.action.size() + event.model.size() + event.result.size() +
         event.address.size();
}

Failure unwritable() {
  return {Reason::unavailable, "the audit log cannot be written", 5};
}

}  // namespace

AuditLog::AuditLog(const std::filesystem::path& path, const AuditOptions& options)
    : path_(path), options_(options), last_hash_(kNoAuditHash), waiting_(std::make_shared<Group>()) {
  descriptor_ = open_file();
  try {
    const Extent extent = follow(path_);
    bytes_ = extent.bytes;
    // A server that was killed after it had renamed the file may have left an empty one, or none.
    if (const auto numbers = rotated_numbers(); bytes_ == 0 && !numbers.empty()) follow(rotated(numbers.back()));
    if (extent.is_cut_off) cut_rest();
    if (bytes_ > 0 && !extent.has_our_key) rotate();
    if (extent.is_cut_off) tell_repair();
    tell_head("the audit log goes on");
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  thread_ = std::thread([this] { run(); });
}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
  tell_head("the audit log ends");
  ::close(descriptor_);
}

void AuditLog::tell_head(const char* event) const {
  log(Level::info, event, {{"file", path_.string()}, {"lines", std::to_string(sequence_)}, {"head", last_hash_}});
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

std::filesystem::path AuditLog::rotated(std::int64_t number) const {
  return path_.string() + fmt::format(".{}", number);
}

std::vector<std::int64_t> AuditLog::rotated_numbers() const {
  std::vector<std::int64_t> numbers;
  const std::string prefix = path_.filename().string() + ".";
  std::error_code error;
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    std::int64_t number = 0;
    const char* const last = name.data() + name.size();
    const auto [stop, fault] = std::from_chars(name.data() + prefix.size(), last, number);
    if (fault == std::errc() && stop == last && number > 0) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

// Takes the place in the chain from the last whole line of a file.
AuditLog::Extent AuditLog::follow(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line, last;
  Extent extent;
  while (std::getline(file, line)) {
    const AuditLine parsed = parse_audit_line(line);
    extent.is_cut_off = file.eof();  // no newline behind it
    if (extent.is_cut_off) break;
    require(parsed.is_whole, ErrorKind::invalid_argument, "{} is no audit log of Tessera", path.string());
    last_hash_ = parsed.hash;
    sequence_ = parsed.sequence;
    extent.bytes += static_cast<std::int64_t>(line.size()) + 1;
    std::swap(line, last);
  }
  if (last.empty()) return extent;
  const AuditLine parsed = parse_audit_line(last);
  extent.has_our_key = options_.key.empty() ? !parsed.is_keyed : has_right_hash(parsed, options_.key);
  return extent;
}

void AuditLog::cut_rest() {
  require(cut_to(bytes_), ErrorKind::io, "the audit log {} cannot be repaired: {}", path_.string(),
          std::strerror(errno));
}

void AuditLog::tell_repair() {
  require(append({{"server", "repair", "", "a line that was cut off has been removed", ""}}), ErrorKind::io,
          "the audit log {} cannot be written", path_.string());
}

bool AuditLog::cut_to(std::int64_t bytes) {
  has_rest_ = ::ftruncate(descriptor_, bytes) != 0;
  return !has_rest_;
}

// Returns whether all of it is on disk; else nothing of it is in the file, or has_rest_ is set.
bool AuditLog::write_durably(std::string_view text) {
  bool is_written = true;
  while (is_written && !text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    is_written = count > 0;
    if (is_written) text.remove_prefix(static_cast<std::size_t>(count));
  }
  // A file system may find out only here that the disk is full. What is no file (EINVAL) cannot be told to be durable.
  is_written = is_written && (::fdatasync(descriptor_) == 0 || errno == EINVAL);
  if (!is_written) cut_to(bytes_);
  return is_written;
}

bool AuditLog::append(const std::vector<AuditEvent>& events) {
  std::string text, hash = last_hash_;
  std::int64_t sequence = sequence_;
  for (const AuditEvent& event : events) text += make_audit_line(++sequence, event, hash, options_.key);
  if (!write_durably(text)) return false;
  bytes_ += static_cast<std::int64_t>(text.size());
  sequence_ = sequence;
  last_hash_ = hash;
  return true;
}

// Where no second file can be made, the first one grows on, and the next line tries again.
void AuditLog::rotate() {
  std::vector<std::int64_t> numbers = rotated_numbers();
  const std::filesystem::path old = rotated(numbers.empty() ? 1 : numbers.back() + 1);
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
    return;
  }
  log(Level::info, "the audit log was rotated",
      {{"file", old.string()}, {"lines", std::to_string(sequence_)}, {"head", last_hash_}});
  for (std::size_t i = 0; i + static_cast<std::size_t>(options_.most_files) <= numbers.size(); ++i)
    std::filesystem::remove(rotated(numbers[i]), error);
}

// A group may be larger than a file should be: it is written in parts, between which the file is changed.
bool AuditLog::write_group(const std::vector<AuditEvent>& events) {
  std::size_t done = 0;
  while (done < events.size()) {
    if (has_rest_ && !cut_to(bytes_)) return false;
    if (bytes_ >= options_.most_bytes) rotate();
    std::size_t end = done;
    for (std::int64_t bytes = bytes_; end < events.size() && (end == done || bytes < options_.most_bytes); ++end)
      bytes += static_cast<std::int64_t>(bytes_of(events[end]));
    if (!append(
            {events.begin() + static_cast<std::ptrdiff_t>(done), events.begin() + static_cast<std::ptrdiff_t>(end)}))
      return false;
    done = end;
  }
  return true;
}

void AuditLog::run() {
  auto told = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_work = [this] { return stops_ || !waiting_->events.empty(); };
    changed_.wait(lock, [&] { return has_work() || refusals_ > 0; });
    if (!has_work()) changed_.wait_for(lock, kSecond, has_work);
    const std::shared_ptr<Group> group = std::exchange(waiting_, std::make_shared<Group>());
    std::vector<AuditEvent> events;
    // Refusals are told once a second, however many other lines there are.
    const bool tells_refusals = stops_ || std::chrono::steady_clock::now() - told >= kSecond;
    if (tells_refusals) told = std::chrono::steady_clock::now();
    const std::int64_t missing = missing_, refusals = tells_refusals ? std::exchange(refusals_, 0) : 0;
    const auto tell = [&](std::int64_t count, const char* what) {
      if (count > 0) events.push_back({"server", "count", "", fmt::format("{} {}", count, what), ""});
    };
    tell(missing, "events could not be recorded");
    tell(refusals, "further refused requests");
    events.insert(events.end(), group->events.begin(), group->events.end());
    if (events.empty()) {
      if (stops_) return;
      continue;
    }
    lock.unlock();
    const bool is_written = write_group(events);
    lock.lock();
    if (is_written) missing_ -= missing;
    else missing_ += static_cast<std::int64_t>(group->events.size()) + refusals;
    is_failing_ = !is_written;
    group->is_written = true;
    group->has_failed = !is_written;
    written_.notify_all();
    if (!is_written && stops_) return;
    if (!is_written && !options_.refuses_when_full) changed_.wait_for(lock, kPause, [this] { return stops_; });
  }
}

// With the mutex held. Null where too many events wait.
std::shared_ptr<AuditLog::Group> AuditLog::add(const AuditEvent& event) {
  const std::size_t bytes = bytes_of(event);
  if (waiting_->events.size() >= kMostEvents || waiting_->bytes + bytes > kMostWaitingBytes) return nullptr;
  waiting_->events.push_back(event);
  waiting_->bytes += bytes;
  changed_.notify_one();
  return waiting_;
}

void AuditLog::write(const AuditEvent& event) {
  std::unique_lock lock(mutex_);
  write_and_wait(event, lock);
}

void AuditLog::write_and_wait(const AuditEvent& event, std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Group> group = add(event);
  if (group) written_.wait(lock, [&] { return group->is_written; });
  else ++missing_;
  if ((!group || group->has_failed) && options_.refuses_when_full) throw unwritable();
}

void AuditLog::note(const AuditEvent& event) {
  std::unique_lock lock(mutex_);
  // Whether the disk takes lines again shows when one is written.
  if (is_failing_ && options_.refuses_when_full) return write_and_wait(event, lock);
  if (add(event)) return;
  ++missing_;
  if (options_.refuses_when_full) throw unwritable();
}

void AuditLog::note_refusal(const AuditEvent& event) {
  const std::lock_guard lock(mutex_);
  const std::int64_t second = Clock::steady().now_ns() / 1'000'000'000;
  if (second != second_) second_ = second, lines_ = 0;
  if (++lines_ <= kMostRefusalLines && add(event)) return;
  if (refusals_++ == 0) changed_.notify_one();
}

}  // namespace tessera::serve
