#include "io/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "io/npz.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "tessera/error.h"

namespace tessera::io::output_file_test {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using ::testing::HasSubstr;
using Name = TemporaryFile::Name;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::ptrdiff_t entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode : 0;
}

void write(OutputFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text)));
}

TEST(OutputFile, ReplacesAFileOrLeavesItAsItWas) {
  for (const Name name : {Name::none_if_possible, Name::always}) {
    const test::TemporaryFolder folder;
    const fs::path path = folder / "a";
    for (const std::string text : {"first", "second"}) {
      {
        OutputFile unfinished(path, name);
        write(unfinished, "lost");
      }
      OutputFile file(path, name);
      write(file, text);
      file.commit();
      EXPECT_EQ(text_of(path), text);
      EXPECT_EQ(entries(folder.path()), 1);
    }
  }
}

TEST(OutputFile, KeepsModeAndUmask) {
  const test::TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_text(folder / "a", "x");
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "a"), S_IFREG | 0640u);
  ASSERT_EQ(::chmod((folder / "a").c_str(), 0604), 0);
  write_text(folder / "a", "y");
  EXPECT_EQ(mode_of(folder / "a"), S_IFREG | 0604u);
}

TEST(OutputFile, RefusesWhatIsNoRegularFileAndLeavesIt) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  (folder / "socket").string().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(listener);
  fs::create_symlink("nowhere", folder / "dangling");
  fs::create_symlink("pipe", folder / "to_pipe");
  fs::create_symlink("round", folder / "round");
  const bool device = ::mknod((folder / "null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;  // only root may
  std::vector<std::pair<std::string, std::string>> cases{
      {"folder", "it is a directory"},
      {"folder/", "it is a directory"},
      {"pipe", "it is not a regular file"},
      {"socket", "it is not a regular file"},
      {"dangling", "a symbolic link to something that does not exist"},
      {"to_pipe", "it is not a regular file"},
      {"round", "Too many levels of symbolic links"},
      {"none/x", "the folder '" + (folder / "none").string() + "' does not exist"},
      {"pipe/x", "is not a folder"},
      {"new/", "it is a directory"}};
  if (device) cases.emplace_back("null", "it is not a regular file");
  for (const auto& [name, text] : cases) {
    const fs::path path = folder.path() / name;
    const mode_t mode = mode_of(path);
    EXPECT_THAT(error_of([&] { check_output(path); }), HasSubstr("cannot write '" + path.string() + "'")) << name;
    EXPECT_THAT(error_of([&] { check_output(path); }), HasSubstr(text)) << name;
    EXPECT_THAT(error_of([&] { write_text(path, "x"); }), HasSubstr(text)) << name;
    EXPECT_EQ(mode_of(path), mode) << name;
  }
  EXPECT_THAT(error_of([] { check_output("/dev/null"); }), HasSubstr("it is not a regular file"));
  EXPECT_THAT(error_of([] { check_output(""); }), HasSubstr("without a name"));
  EXPECT_EQ(entries(folder.path()), device ? 7 : 6);
}

TEST(OutputFile, FollowsALinkAndLeavesIt) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "far");
  write_text(folder / "far/file", "old");
  fs::create_symlink("far/file", folder / "link");
  write_text(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(text_of(folder / "far/file"), "new");
}

TEST(OutputFile, ADeviceThatComesMeanwhileStays) {
  const test::TemporaryFolder folder;
  OutputFile file(folder / "a");
  ASSERT_EQ(::mkfifo((folder / "a").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { file.commit(); }), HasSubstr("it is not a regular file"));
  EXPECT_TRUE(S_ISFIFO(mode_of(folder / "a")));
}

TEST(OutputFile, LongNamesFit) {
  const test::TemporaryFolder folder;
  const std::string name(255, 'n');
  for (const Name kind : {Name::none_if_possible, Name::always}) {
    OutputFile file(folder / name, kind);
    file.commit();
  }
  EXPECT_THAT(error_of([&] { check_output(folder / (name + "n")); }), HasSubstr("File name too long"));
}

// In a process of its own: what it exits with.
template <typename Body>
int status_of_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(OutputFile, NothingIsLeftOfAKilledProcess) {
  const test::TemporaryFolder folder;
  const auto die = [&](Name name, int number) {
    return status_of_child([&]() -> int {
      ::signal(SIGTERM, [](int) {
        remove_temporaries();
        ::_exit(7);
      });
      OutputFile file(folder / "a", name);
      write(file, "half");
      ::raise(number);
      return 0;
    });
  };
  EXPECT_EQ(WEXITSTATUS(die(Name::always, SIGTERM)), 7);
  EXPECT_EQ(entries(folder.path()), 0);
  const int probe = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without names";
  ::close(probe);
  EXPECT_EQ(WTERMSIG(die(Name::none_if_possible, SIGKILL)), SIGKILL);
  EXPECT_EQ(entries(folder.path()), 0);
}

TEST(OutputFile, TheLimitOfFilesIsAnError) {
  const test::TemporaryFolder folder;
  write_text(folder / "a", "old");
  const int status = status_of_child([&] {
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text(101, 'x');
    const bool text_refused = error_of([&] {
                                write_text(folder / "a", text);
                              }).find("more than the 100 bytes that this process may write") != std::string::npos;
    const bool array_refused =
        error_of([&] {
          write_npz(folder / "a", {{"x", Tensor::from<float>({1000}, std::vector<float>(1000))}});
        }).find("more than the 100 bytes") != std::string::npos;
    write_text(folder / "b", text.substr(1));
    return text_refused && array_refused ? 0 : 1;
  });
  EXPECT_EQ(status, 0);  // no signal either
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_EQ(entries(folder.path()), 2);
}

TEST(MakeFolder, MakesItOrSaysWhyNot) {
  const test::TemporaryFolder folder;
  make_folder(folder / "a/b");
  make_folder(folder / "a/b");
  EXPECT_TRUE(fs::is_directory(folder / "a/b"));
  write_text(folder / "file", "mine");
  const std::string begin = "cannot make the folder '" + (folder / "file").string();
  EXPECT_THAT(error_of([&] { make_folder(folder / "file"); }), HasSubstr(begin + "': there is a file of that name"));
  EXPECT_THAT(error_of([&] { make_folder(folder / "file/b"); }), HasSubstr(begin + "/b': Not a directory"));
  EXPECT_EQ(text_of(folder / "file"), "mine");
}

}  // namespace
}  // namespace tessera::io::output_file_test
