#include "serve/core/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "serve/core/digest.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::serve::audit_log_test {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

void fill(const std::filesystem::path& path, int lines, std::int64_t most_bytes = 1 << 20) {
  AuditLog log(path, most_bytes);
  for (int i = 0; i < lines; ++i) log.write({"alice", "load", "model\"\n", "done", "127.0.0.1"});
}

TEST(AuditLog, GoesOnWithItsChain) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  fill(path, 3);
  fill(path, 2);
  const AuditVerdict verdict = verify_audit_log(path);
  EXPECT_EQ(verdict.lines, 5);
  EXPECT_EQ(verdict.first_wrong_line, 0) << verdict.mistake;
}

TEST(AuditLog, TamperingShows) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  fill(path, 4);
  const std::string whole = text_of(path);
  std::string changed = whole;
  changed.replace(changed.find("alice", whole.size() / 2), 5, "mary!");
  write(path, changed);
  EXPECT_THAT(verify_audit_log(path).mistake, testing::HasSubstr("was changed"));
  const std::size_t first = whole.find('\n') + 1, second = whole.find('\n', first) + 1;
  write(path, whole.substr(0, first) + whole.substr(second));
  EXPECT_EQ(verify_audit_log(path).first_wrong_line, 2);
  write(path, whole.substr(first));
  EXPECT_EQ(verify_audit_log(path, std::string(64, '0')).first_wrong_line, 1);
  write(path, whole.substr(0, whole.size() - 5));
  EXPECT_EQ(verify_audit_log(path).first_wrong_line, 4);
}

TEST(AuditLog, ALineThatACrashCutOffIsReplacedAndTold) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  fill(path, 3);
  const std::string whole = text_of(path);
  write(path, whole.substr(0, whole.size() - 20));
  fill(path, 1);
  const AuditVerdict verdict = verify_audit_log(path);
  EXPECT_EQ(verdict.first_wrong_line, 0) << verdict.mistake;
  EXPECT_EQ(verdict.lines, 4);  // two whole ones, the repair, and the new one
  EXPECT_THAT(text_of(path), testing::HasSubstr("cut off has been removed"));
}

TEST(AuditLog, RotatesWithoutABreakInTheChain) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  fill(path, 20, 2000);
  std::string previous(64, '0');
  std::int64_t lines = 0;
  for (int i = 1; std::filesystem::exists(path.string() + "." + std::to_string(i)); ++i) {
    const AuditVerdict verdict = verify_audit_log(path.string() + "." + std::to_string(i), previous);
    EXPECT_EQ(verdict.first_wrong_line, 0) << verdict.mistake;
    previous = verdict.last_hash;
    lines += verdict.lines;
  }
  const AuditVerdict last = verify_audit_log(path, previous);
  EXPECT_EQ(last.first_wrong_line, 0) << last.mistake;
  EXPECT_EQ(lines + last.lines, 20);
  EXPECT_GT(lines, 10);
}

TEST(AuditLog, OneServerAtATime) {
  const test::TemporaryFolder folder;
  const AuditLog log(folder / "audit.log", 1 << 20);
  test::expect_error_containing(ErrorKind::io, "another server writes",
                                [&] { AuditLog(folder / "audit.log", 1 << 20); });
}

TEST(Digest, IsSha256) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-4
}

}  // namespace
}  // namespace tessera::serve::audit_log_test
