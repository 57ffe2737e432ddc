#include "serve/core/operations/audit_line.h"

#include <fmt/chrono.h>

#include <chrono>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "io/file.h"
#include "serve/core/operations/digest.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kHashDigits = 64;
constexpr std::string_view kEnding = "\"}";
constexpr std::string_view kHashKey = ",\"hash\":\"", kKeyedHashKey = ",\"hmac\":\"";
static_assert(kHashKey.size() == kKeyedHashKey.size());
constexpr std::string_view kPreviousKey = "\"previous\":\"";
constexpr std::string_view kSequenceKey = "{\"sequence\":";

std::string time_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(std::chrono::system_clock::now()));
}

std::string hash_of(std::string_view text, const std::string& key) {
  return key.empty() ? sha256(text) : hmac_sha256(key, text);
}

}  // namespace

AuditLine parse_audit_line(std::string_view line) {
  AuditLine parsed;
  const std::size_t ending = kHashKey.size() + kHashDigits + kEnding.size();
  if (line.size() < ending + kSequenceKey.size() || !line.starts_with(kSequenceKey)) return parsed;
  const std::string_view tail = line.substr(line.size() - ending);
  parsed.is_keyed = tail.starts_with(kKeyedHashKey);
  if ((!parsed.is_keyed && !tail.starts_with(kHashKey)) || !tail.ends_with(kEnding)) return parsed;
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

bool has_right_hash(const AuditLine& line, const std::string& key) {
  return line.is_keyed == !key.empty() && equal_in_constant_time(hash_of(line.text, key), line.hash);
}

std::string make_audit_line(std::int64_t sequence, const AuditEvent& event, std::string& hash, const std::string& key) {
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
  hash = hash_of(line, key);
  line += fmt::format("{}{}{}\n", key.empty() ? kHashKey : kKeyedHashKey, hash, kEnding);
  return line;
}

std::string read_audit_key(const std::filesystem::path& path) {
  constexpr std::int64_t kMostKeyBytes = 4096, kLeastKeyBytes = 32;
  const std::vector<std::byte> bytes = io::read_file(path, kMostKeyBytes);
  std::string key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  require(std::ssize(key) >= kLeastKeyBytes, ErrorKind::invalid_argument,
          "the key of the audit log in {} has {} bytes, expected {} or more (openssl rand -hex 32)", path.string(),
          key.size(), kLeastKeyBytes);
  return key;
}

AuditVerdict verify_audit_log(const std::filesystem::path& path, const std::string& continues,
                              const AuditProof& proof) {
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
    if (parsed.is_keyed && proof.key.empty())
      return wrong("the line's hash has a key: name its file by --key, without it nothing can be said");
    if (!parsed.is_keyed && !proof.key.empty())
      return wrong("the line's hash has no key: whoever could write the file may have made it");
    if (!has_right_hash(parsed, proof.key))
      return wrong(proof.key.empty() ? "the line was changed: its hash is another one"
                                     : "the line was changed, or its hash is of another key");
    if (!proof.head.empty() && equal_in_constant_time(proof.head, parsed.hash)) verdict.head_line = verdict.lines;
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
