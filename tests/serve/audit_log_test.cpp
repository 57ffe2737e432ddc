#include "serve/core/operations/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>

#include "serve/core/operations/audit_line.h"
#include "serve/core/operations/digest.h"
#include "serve/core/operations/log.h"
#include "serve/protocol/failure.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
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
  AuditLog log(path, {.most_bytes = most_bytes});
  for (int i = 0; i < lines; ++i) log.write({"alice", "load", "model\"\n", "done", "127.0.0.1"});
}

std::vector<std::filesystem::path> with_rotated(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; std::filesystem::exists(path.string() + "." + std::to_string(i)); ++i)
    files.emplace_back(path.string() + "." + std::to_string(i));
  files.push_back(path);
  return files;
}

// Lines of the files together; 0 if their chain is broken.
std::int64_t whole_lines(const std::vector<std::filesystem::path>& files) {
  std::string previous(64, '0');
  std::int64_t lines = 0;
  for (const std::filesystem::path& file : files) {
    const AuditVerdict verdict = verify_audit_log(file, previous);
    if (verdict.first_wrong_line != 0) return 0;
    previous = verdict.last_hash;
    lines += verdict.lines;
  }
  return lines;
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
  fill(path, 20, 1000);
  EXPECT_GT(with_rotated(path).size(), 3U);
  EXPECT_EQ(whole_lines(with_rotated(path)), 20);
}

TEST(AuditLog, AServerThatWasKilledWhileItRotatedGoesOnWithTheChain) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  fill(path, 5);
  for (const bool has_made_the_next : {false, true}) {
    std::filesystem::rename(path, path.string() + (has_made_the_next ? ".2" : ".1"));
    if (has_made_the_next) write(path, "");
    fill(path, 5);
  }
  EXPECT_EQ(whole_lines(with_rotated(path)), 15);
}

TEST(AuditLog, ALineThatDoesNotFitOnTheDiskLeavesNothingAndTheNextOneGoesOn) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  AuditLog log(path, AuditOptions());
  const AuditEvent event{"alice", "load", "model", "done", "127.0.0.1"};
  log.write(event);
  const auto bytes = std::filesystem::file_size(path);
  {
    const test::FileSizeLimit limit(bytes + 50);  // a part of the next line fits
    EXPECT_THROW(log.write(event), Failure);
    EXPECT_EQ(std::filesystem::file_size(path), bytes);
  }
  log.write(event);
  EXPECT_EQ(whole_lines({path}), 3);  // one of them tells of the event that is missing
}

TEST(AuditLog, WhereNoSecondFileCanBeMadeTheFirstOneGrowsOn) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  AuditLog log(path, {.most_bytes = 100});
  const AuditEvent event{"alice", "load", "model", "done", "127.0.0.1"};
  log.write(event);
  // The sanitizer of undefined behaviour looks at an object of a class that is new to it by means of a pipe, for which
  // there is no descriptor below: here it sees the error and the log.
  test::expect_error_containing(ErrorKind::io, "another server writes", [&] { AuditLog(path, {.most_bytes = 100}); });
  serve::log(Level::warning, "the audit log will not be rotated");
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  EXPECT_NO_THROW(log.write(event));
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(with_rotated(path).size(), 1U);
  log.write(event);
  EXPECT_EQ(with_rotated(path).size(), 2U);
  EXPECT_EQ(whole_lines(with_rotated(path)), 3);
}

TEST(AuditLog, RefusalsAreCountedBeyondSomeLinesASecond) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  constexpr int kRefusals = 5000;
  {
    AuditLog log(path, AuditOptions());
    for (int i = 0; i < kRefusals; ++i) log.note_refusal({"unknown", "infer", "m", "no token", "127.0.0.1"});
  }
  EXPECT_LT(whole_lines({path}), kRefusals / 5);
  const std::string text = text_of(path);
  std::int64_t told = 0;
  const std::string line = "\"action\":\"infer\"";
  for (std::size_t at = 0; (at = text.find(line, at)) != std::string::npos; ++at) ++told;
  const std::string what = " further refused requests";
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) {
    const std::size_t begin = text.rfind('"', at) + 1;
    told += std::stoll(text.substr(begin, at - begin));
  }
  EXPECT_EQ(told, kRefusals);
}

TEST(AuditLog, OldFilesAreRemoved) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  {
    AuditLog log(path, {.most_bytes = 1000, .most_files = 2});
    for (int i = 0; i < 40; ++i) log.write({"alice", "load", "model", "done", "127.0.0.1"});
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 3U);
  EXPECT_EQ(verify_audit_log(path).first_wrong_line, 0);
}

TEST(AuditLog, AFullDiskRefusesOrDropsAsChosenAndTellsLater) {
  for (const bool refuses : {true, false}) {
    const test::TemporaryFolder folder;
    const auto path = folder / "audit.log";
    AuditLog log(path, {.refuses_when_full = refuses});
    const AuditEvent event{"alice", "load", "model", "done", "127.0.0.1"};
    log.write(event);
    {
      const test::FileSizeLimit limit(std::filesystem::file_size(path) + 50);
      if (refuses) EXPECT_THROW(log.write(event), Failure);
      else EXPECT_NO_THROW(log.write(event));
    }
    log.write(event);
    EXPECT_THAT(text_of(path), testing::HasSubstr("1 events could not be recorded"));
    EXPECT_EQ(whole_lines({path}), 3);
  }
}

TEST(AuditLog, OneServerAtATime) {
  const test::TemporaryFolder folder;
  const AuditLog log(folder / "audit.log", AuditOptions());
  test::expect_error_containing(ErrorKind::io, "another server writes",
                                [&] { AuditLog(folder / "audit.log", AuditOptions()); });
}

// Lines that somebody who can write the file, and knows no key, makes of those from the given one on.
void forge(const std::filesystem::path& path, std::size_t from, const std::string& caller) {
  std::ifstream file(path);
  std::string text, line, hash(64, '0');
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const AuditLine parsed = parse_audit_line(line);
    if (number < from) {
      text += line + "\n";
      hash = parsed.hash;
    } else {
      text += make_audit_line(parsed.sequence, {caller, "load", "m", "done", ""}, hash, "");
    }
  }
  file.close();
  write(path, text);
}

TEST(AuditLog, WithoutAKeyAForgedRestShowsOnlyByAHeadThatWasNoted) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  fill(path, 6);
  const std::string head = verify_audit_log(path).last_hash;
  EXPECT_EQ(verify_audit_log(path, "", {.head = head}).head_line, 6);
  fill(path, 2);  // it goes on
  EXPECT_EQ(verify_audit_log(path, "", {.head = head}).head_line, 6);
  forge(path, 4, "mallory");
  EXPECT_EQ(verify_audit_log(path).first_wrong_line, 0);
  EXPECT_EQ(verify_audit_log(path, "", {.head = head}).head_line, 0);
}

TEST(AuditLog, WithAKeyNobodyElseCanGoOnWithTheChain) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  const std::string key(40, 'k');
  const auto keyed = [&](const std::string& with) {
    AuditLog log(path, {.key = with});
    for (int i = 0; i < 3; ++i) log.write({"alice", "load", "m", "done", ""});
  };
  keyed(key);
  keyed(key);
  EXPECT_EQ(verify_audit_log(path, "", {.key = key}).lines, 6);
  EXPECT_EQ(verify_audit_log(path, "", {.key = key}).first_wrong_line, 0);
  EXPECT_THAT(verify_audit_log(path).mistake, testing::HasSubstr("--key"));
  EXPECT_THAT(verify_audit_log(path, "", {.key = std::string(40, 'x')}).mistake, testing::HasSubstr("another key"));
  forge(path, 4, "mallory");
  EXPECT_EQ(verify_audit_log(path, "", {.key = key}).first_wrong_line, 4);
  EXPECT_THAT(verify_audit_log(path, "", {.key = key}).mistake, testing::HasSubstr("has no key"));
}

TEST(AuditLog, AFileHasLinesOfOneKey) {
  const test::TemporaryFolder folder;
  const auto path = folder / "audit.log";
  const std::string first(40, 'a'), second(40, 'b');
  std::string previous;
  for (const std::string& key : {std::string(), first, second}) {
    AuditLog log(path, {.key = key});
    log.write({"alice", "load", "m", "done", ""});
  }
  for (const auto& [name, key] :
       {std::pair{"audit.log.1", std::string()}, {"audit.log.2", first}, {"audit.log", second}}) {
    const AuditVerdict verdict = verify_audit_log(folder / name, previous, {.key = key});
    EXPECT_EQ(verdict.first_wrong_line, 0) << name << ": " << verdict.mistake;
    EXPECT_EQ(verdict.lines, 1) << name;
    previous = verdict.last_hash;  // the chain goes on from file to file
  }
}

TEST(AuditLog, AKeyIsNotShort) {
  const test::TemporaryFolder folder;
  write(folder / "key", "short\n");
  test::expect_error_containing(ErrorKind::invalid_argument, "has 5 bytes, expected 32 or more",
                                [&] { read_audit_key(folder / "key"); });
  write(folder / "key", std::string(64, 'f') + "\n");
  EXPECT_EQ(read_audit_key(folder / "key"), std::string(64, 'f'));
}

TEST(Digest, IsHmac) {  // RFC 4231, test case 2
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Digest, IsSha256) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-4
}

}  // namespace
}  // namespace tessera::serve::audit_log_test
