// Who did what, when, and with what result: a file of lines that is only added to. Each line holds the hash of the line
// before it, so that a line that was changed, removed or put in between shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::serve {

struct AuditEvent {
  std::string caller, action, model, result, address;
};

// Thread-safe.
class AuditLog {
 public:
  // Goes on with the file's chain, or that of the newest PATH.N where the file has no line. A last line that a crash
  // cut off is cut away, and the next line says so. A file longer than `most_bytes` is renamed to PATH.N (N counts
  // up), and the chain goes on in a new one. Throws Error(io), and invalid_argument for a file that is no audit log.
  AuditLog(const std::filesystem::path& path, std::int64_t most_bytes);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // On disk when this returns. Throws Failure(unavailable) where it cannot be written: what is not recorded is not
  // done.
  void write(const AuditEvent& event);

 private:
  struct Extent {
    std::int64_t bytes = 0;   // of whole lines
    bool is_cut_off = false;  // a part of a line follows them
  };

  int open_file() const;
  std::filesystem::path rotated(int number) const;
  int newest_rotated() const;  // 0: none
  Extent follow(const std::filesystem::path& path);
  void repair();
  bool cut_to(std::int64_t bytes);
  void write_durably(std::string_view line);
  void append(const AuditEvent& event);
  void rotate();

  const std::filesystem::path path_;
  const std::int64_t most_bytes_;
  std::mutex mutex_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0, sequence_ = 0;
  bool has_rest_ = false;  // behind bytes_ stands a part of a line that could not be written whole
  std::string last_hash_;
};

struct AuditVerdict {
  std::int64_t lines = 0;
  std::int64_t first_wrong_line = 0;  // 0: the chain is whole
  std::string mistake;
  std::string first_previous, last_hash;  // for the chain between files
};

// Of one file. `continues`: the hash that the first line must name, or "" for any. Throws Error(not_found, io).
AuditVerdict verify_audit_log(const std::filesystem::path& path, const std::string& continues = "");

}  // namespace tessera::serve
