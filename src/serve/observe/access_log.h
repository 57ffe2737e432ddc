// One line of JSON a request, for people and programs that want to know who asked for what, and how it went.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace tessera::serve {

// A request and its answer. The front that read it fills it; who the caller is and where its time went is added on
// its way.
struct AccessRecord {
  std::string id, protocol, peer, key, method, path, model;
  int status = 0;  // of HTTP or of gRPC
  std::int64_t bytes_in = 0, bytes_out = 0;
  std::int64_t began_ns = 0, ended_ns = 0;           // of the steady clock
  std::atomic<std::int64_t> queue_ns{0}, run_ns{0};  // of all steps together
};

// {"time":"2026-11-27T10:00:00.123Z","id":"…",…} with a newline.
std::string access_line(const AccessRecord& record);

struct AccessLogOptions {
  std::string file;                                  // "": no access log; "-": standard output
  std::int64_t most_bytes = std::int64_t{64} << 20;  // of one file
  std::int64_t most_files = 8;                       // of rotated ones; the oldest are removed
};

// Lines are written by a thread of its own. Where the disk is full or too slow, lines are lost, and a line counts them;
// no request waits. Thread-safe.
class AccessLog {
 public:
  // Adds to the file, and renames one longer than most_bytes to PATH.1, that one to PATH.2 and so on. Throws Error(io).
  explicit AccessLog(const AccessLogOptions& options);
  // Writes what waits.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void add(const AccessRecord& record);
  std::uint64_t lost() const { return lost_.load(); }  // lines

 private:
  void run();
  bool write(const std::string& text);
  void rotate();
  bool open();

  const AccessLogOptions options_;
  int descriptor_ = -1;  // of the thread that writes, like the next one
  std::int64_t bytes_ = 0;
  std::atomic<std::uint64_t> lost_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  std::uint64_t waiting_lines_ = 0, untold_ = 0;  // lines that are lost, and that no line has told of
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace tessera::serve
