// One line of the audit log: {"sequence":7,"previous":"…",…,"hash":"…"}. The hash is of what stands before its key. Of
// a log with a key it is an HMAC, and the field is named "hmac".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/core/operations/audit_log.h"

namespace tessera::serve {

struct AuditLine {
  std::string_view text, hash, previous;  // of the line that was parsed
  std::int64_t sequence = 0;
  bool is_whole = false, is_keyed = false;
};

// Without the newline.
AuditLine parse_audit_line(std::string_view line);

// The line with its newline; `hash` holds that of the line before it, and then its own. `key`: "" for none.
std::string make_audit_line(std::int64_t sequence, const AuditEvent& event, std::string& hash, const std::string& key);
// Whether the line has the hash that it says, under the key if it is a keyed one.
bool has_right_hash(const AuditLine& line, const std::string& key);

// The value that the first line of a chain names as the hash before it.
inline constexpr std::string_view kNoAuditHash = "0000000000000000000000000000000000000000000000000000000000000000";

}  // namespace tessera::serve
