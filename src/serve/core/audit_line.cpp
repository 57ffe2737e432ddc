#include "serve/core/audit_line.h"

#include <fmt/chrono.h>

#include <chrono>
#include <fstream>

#include "base/error.h"
#include "serve/core/digest.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kHashDigits = 64;
constexpr std::string_view kEnding = "\"}";
constexpr std::string_view kHashKey = ",\"hash\":\"";
constexpr std::string_view kPreviousKey = "\"previous\":\"";
constexpr std::string_view kSequenceKey = "{\"sequence\":";

std::string time_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(std::chrono::system_clock::now()));
}

}  // namespace

AuditLine parse_audit_line(std::string_view line) {
  AuditLine parsed;
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

std::string make_audit_line(std::int64_t sequence, const AuditEvent& event, std::string& hash) {
  std::string line =
      fmt::format("{}{},{}{}\",\"time\":\"{}\"", kSequenceKey, sequence, kPreviousKey, hash, time_text());
  const auto add = [&](const char* key, const std::string& value) {
    line += fmt::format(",\"{}\":", key);
    append_json_text(value, line);
  };
  add("caller", event.caller);
  add("action", event.action);
  add("model", event.model);
  add("result", event.result);
  add("address", event.address);
  hash = sha256(line);
  line += fmt::format("{}{}{}\n", kHashKey, hash, kEnding);
  return line;
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
    const AuditLine parsed = parse_audit_line(line);
    if (!parsed.is_whole || file.eof()) return wrong("the line is cut off or was never written by the server");
    if (sha256(parsed.text) != parsed.hash) return wrong("the line was changed: its hash is another one");
    if (!expected.empty() && parsed.previous != expected)
      return wrong("the line does not follow the one before it: lines were removed, added or moved");
    if (sequence != 0 && parsed.sequence != sequence + 1) return wrong("the line's number does not follow");
    if (verdict.lines == 1) {
      verdict.first_previous = parsed.previous;
      if (parsed.previous == kNoAuditHash && parsed.sequence != 1) return wrong("the first line's number is not 1");
    }
    expected = parsed.hash;
    sequence = parsed.sequence;
  }
  verdict.last_hash = expected;
  return verdict;
}

}  // namespace tessera::serve
