// One line of the audit log: {"sequence":7,"previous":"…",…,"hash":"…"}. The hash is of what stands before its key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/core/audit_log.h"

namespace tessera::serve {

struct AuditLine {
  std::string_view text, hash, previous;  // of the line that was parsed
  std::int64_t sequence = 0;
  bool is_whole = false;
};

// Without the newline.
AuditLine parse_audit_line(std::string_view line);

// The line with its newline; `hash` holds that of the line before it, and then its own.
std::string make_audit_line(std::int64_t sequence, const AuditEvent& event, std::string& hash);

// What the first line of a chain names as the hash before it.
inline constexpr std::string_view kNoAuditHash = "0000000000000000000000000000000000000000000000000000000000000000";

}  // namespace tessera::serve
