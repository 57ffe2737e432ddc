// Key files: what is written is read, and whatever is wrong with one is said without showing it.
#include "protect/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/output_file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::test::key_file_test {
namespace {

using protect::KeyKind;

class KeyFileTest : public testing::Test {
 protected:
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.key";
};

TEST_F(KeyFileTest, WritesKeysThatAreReadBack) {
  protect::write_new_keys(folder / "keys");
  const std::pair<const char*, KeyKind> files[] = {{"model.key", KeyKind::symmetric},
                                                   {"recipient.key", KeyKind::recipient_secret},
                                                   {"recipient.pub", KeyKind::recipient},
                                                   {"publisher.key", KeyKind::publisher_secret},
                                                   {"publisher.pub", KeyKind::publisher}};
  for (const auto& [name, kind] : files) {
    const std::filesystem::path file = folder / "keys" / name;
    const protect::Key key = protect::read_key_file(file);
    EXPECT_EQ(key.kind, kind);
    EXPECT_EQ(key.bytes.size(), kind == KeyKind::publisher_secret ? 64U : 32U);
    struct stat status{};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    const bool is_secret = std::string(name).ends_with(".key");
    EXPECT_EQ(status.st_mode & 0777U & ~0644U, 0U) << name;
    EXPECT_EQ((status.st_mode & 0044U) == 0, is_secret) << name;
  }
  expect_error_containing(ErrorKind::io, "a lost key cannot be made again",
                          [&] { protect::write_new_keys(folder / "keys"); });
}

TEST_F(KeyFileTest, TakesThirtyTwoBytesAsTheyAre) {
  io::write_text(path, std::string(32, 'k'));
  const protect::Key key = protect::read_key_file(path);
  EXPECT_EQ(key.kind, KeyKind::symmetric);
  EXPECT_EQ(key.bytes.data()[31], 'k');
}

TEST_F(KeyFileTest, SaysWhatIsWrongAndShowsNothing) {
  const auto refuses = [&](const std::string& text, const std::string& message) {
    io::write_text(path, text);
    try {
      protect::read_key_file(path);
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("c2VjcmV0"), std::string::npos) << error.what();
    }
  };
  refuses("", "is no key");
  refuses("c2VjcmV0", "is no key");
  refuses("tessera-key-1 c2VjcmV0", "a key of an unknown kind");
  refuses("tessera-key-1 symmetric c2VjcmV0\n", "that is not 32 bytes in base64");
  refuses("tessera-key-1 symmetric", "that is not 32 bytes in base64");
  refuses("tessera-key-1 symmetric " + std::string(44, '!'), "that is not 32 bytes in base64");
  refuses("tessera-key-1 symmetric " + std::string(400, 'A'), "that is not 32 bytes in base64");
  refuses(std::string(5000, 'A'), "a key file or password has at most 4096");
}

TEST_F(KeyFileTest, ReadsOneLineAsAPassword) {
  io::write_text(path, "a b\r\n");
  EXPECT_EQ(protect::read_password_file(path).size(), 3U);
  for (const char* const text : {"", "\n", "a\nb\n"}) {
    io::write_text(path, text);
    expect_error_containing(ErrorKind::invalid_argument, "has no password: expected one line",
                            [&] { protect::read_password_file(path); });
  }
}

}  // namespace
}  // namespace tessera::test::key_file_test
