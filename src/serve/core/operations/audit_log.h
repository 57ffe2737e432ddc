// Who did what, when, and with what result: a file of lines that is only added to. Each line holds the hash of the line
// before it, so that a line that was changed, removed or put in between shows. Without a key, who may write the file
// can write all of it anew; with one, who may not read the key cannot. That lines were cut off at the end shows in
// either case only by a copy of the last hash that lies elsewhere: the server's log has it at the start, at each change
// of the file and at the end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tessera::serve {

struct AuditEvent {
  std::string caller, action, model, result, address;
};

struct AuditOptions {
  std::int64_t most_bytes = std::int64_t{64} << 20;  // of one file
  std::int64_t most_files = 16;                      // of rotated ones; the oldest are removed
  // Where the disk is full or slow: whether what cannot be recorded is refused, or done and counted as missing.
  bool refuses_when_full = true;
  std::string key;  // of the hashes (HMAC); "": none
};

// Lines are written by a thread of its own, many at once where many come. Thread-safe.
class AuditLog {
 public:
  // Goes on with the file's chain, or that of the newest PATH.N where the file has no line. A last line that a crash
  // cut off is cut away, and the next line says so. A file whose last line is not of the options' key is renamed, so
  // that a file has lines of one key. A file longer than most_bytes is renamed to PATH.N (N counts up), and the chain
  // goes on in a new one. Throws Error(io), and invalid_argument for a file that is no audit log.
  AuditLog(const std::filesystem::path& path, const AuditOptions& options);
  // Writes what waits.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // For changes. On disk when this returns. Throws Failure(unavailable) where it cannot be written and
  // refuses_when_full: what is not recorded is not done.
  void write(const AuditEvent& event);
  // For inferences. On disk a moment later. Throws Failure(unavailable) where the last lines could not be written or
  // too many wait, and refuses_when_full.
  void note(const AuditEvent& event);
  // For requests that are refused anyway, of which anybody may send many: some lines a second are written, and the
  // others are counted in a line of their own. Throws nothing.
  void note_refusal(const AuditEvent& event);

 private:
  struct Extent {
    std::int64_t bytes = 0;   // of whole lines
    bool is_cut_off = false;  // a part of a line follows them
    bool has_our_key = true;  // its last line is of the options' key, or without one as they are
  };
  // A group of events that are written together.
  struct Group {
    std::vector<AuditEvent> events;
    std::size_t bytes = 0;
    bool is_written = false, has_failed = false;
  };

  int open_file() const;
  std::filesystem::path rotated(std::int64_t number) const;
  std::vector<std::int64_t> rotated_numbers() const;  // ascending
  Extent follow(const std::filesystem::path& path);
  void cut_rest();
  void tell_repair();
  bool cut_to(std::int64_t bytes);
  bool write_durably(std::string_view text);
  bool append(const std::vector<AuditEvent>& events);
  void rotate();
  void tell_head(const char* event) const;
  std::shared_ptr<Group> add(const AuditEvent& event);
  void write_and_wait(const AuditEvent& event, std::unique_lock<std::mutex>& lock);
  void run();
  bool write_group(const std::vector<AuditEvent>& events);

  const std::filesystem::path path_;
  const AuditOptions options_;

  // Used by the thread that writes and by the constructor only.
  int descriptor_ = -1;
  std::int64_t bytes_ = 0, sequence_ = 0;
  bool has_rest_ = false;  // behind bytes_ stands a part of a line that could not be written whole
  std::string last_hash_;

  std::mutex mutex_;
  std::condition_variable changed_, written_;
  std::shared_ptr<Group> waiting_;
  bool stops_ = false, is_failing_ = false;
  std::int64_t missing_ = 0;             // events that could not be recorded
  std::int64_t refusals_ = 0;            // that are counted alone
  std::int64_t second_ = 0, lines_ = 0;  // lines of refusals in this second of the steady clock
  std::thread thread_;
};

struct AuditVerdict {
  std::int64_t lines = 0;
  std::int64_t first_wrong_line = 0;  // 0: the chain is whole
  std::string mistake;
  std::string first_previous, last_hash;  // for the chain between files
  std::int64_t head_line = 0;             // the line that has the hash AuditProof::head; 0: none
};

// Knowledge about a log from elsewhere, against which it is verified.
struct AuditProof {
  std::string key;   // of its hashes, "" for hashes without one
  std::string head;  // a hash that was noted when it was the last one
};

// Verifies one file. `continues`: the hash that the first line must name, or "" for any. Throws Error(not_found, io).
AuditVerdict verify_audit_log(const std::filesystem::path& path, const std::string& continues = "",
                              const AuditProof& proof = {});
// The key in a file: its bytes, without the newline at the end. Throws Error(io, not_found), and invalid_argument for
// less than 32 bytes.
std::string read_audit_key(const std::filesystem::path& path);

}  // namespace tessera::serve
