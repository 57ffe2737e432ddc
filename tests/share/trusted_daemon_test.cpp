#include "lease/trusted_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "lease/job_description.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::lease::trusted_daemon_test {
namespace {

using Failure = DaemonConnection::Failure;
constexpr uid_t kStranger = 65534, kOther = 1;

// A socket that somebody listens at, as a daemon does.
Socket listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  Socket socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(socket.descriptor(), 8), 0);
  return socket;
}

class TrustedDaemon : public testing::Test {
 protected:
  TrustedDaemon() : folder_(holder_ / "share"), path_((folder_ / "share.sock").string()) {
    std::filesystem::create_directory(folder_);
    chmod(folder_.c_str(), 0755);
    chmod((holder_ / ".").c_str(), 0755);
  }

  const test::TemporaryFolder holder_;
  const std::filesystem::path folder_;
  const std::string path_;
};

TEST_F(TrustedDaemon, OfThisUserIsOne) {
  const Socket listener = listen_at(path_);
  const DaemonConnection connection = connect_to_daemon(path_, {});
  EXPECT_TRUE(connection.socket.is_open()) << connection.why;
  EXPECT_EQ(connection.failure, Failure::none);
}

TEST_F(TrustedDaemon, IsNotThereWhereNobodyListens) {
  EXPECT_EQ(connect_to_daemon(path_, {}).failure, Failure::no_daemon);
  EXPECT_EQ(connect_to_daemon((holder_ / "none" / "share.sock").string(), {}).failure, Failure::no_daemon);
  listen_at(path_).reset();
  const DaemonConnection gone = connect_to_daemon(path_, {});
  EXPECT_EQ(gone.failure, Failure::no_daemon);
  EXPECT_THAT(gone.why, testing::HasSubstr("no sharing daemon listens"));
}

TEST_F(TrustedDaemon, IsNotInAFolderThatOthersMayChange) {
  const Socket listener = listen_at(path_);
  chmod(folder_.c_str(), 0777);
  const DaemonConnection connection = connect_to_daemon(path_, {});
  EXPECT_EQ(connection.failure, Failure::not_trusted);
  EXPECT_FALSE(connection.socket.is_open());
  EXPECT_THAT(connection.why, testing::HasSubstr("may be changed by other users"));
  test::expect_error_containing(ErrorKind::io, "may be changed by other users", [&] { request_status(path_); });
  chmod(folder_.c_str(), 01777);  // nobody can take the place of another's socket
  EXPECT_TRUE(connect_to_daemon(path_, {}).socket.is_open());
}

TEST_F(TrustedDaemon, IsNotAStrangersByFolderSocketOrProcess) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may give files to another user, and act as one";
  const auto expect_refused = [&](const char* what) {
    const DaemonConnection connection = connect_to_daemon(path_, {});
    EXPECT_EQ(connection.failure, Failure::not_trusted) << what;
    EXPECT_FALSE(connection.socket.is_open()) << what;
    EXPECT_THAT(connection.why, testing::AllOf(testing::HasSubstr(what), testing::HasSubstr("belongs to the user"),
                                               testing::HasSubstr("--trust")));
    EXPECT_TRUE(connect_to_daemon(path_, std::array{kStranger}).socket.is_open()) << what;
  };
  Socket listener = listen_at(path_);
  ASSERT_EQ(chown(folder_.c_str(), kStranger, kStranger), 0);
  expect_refused("the folder '");
  ASSERT_EQ(chown(folder_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(path_.c_str(), kStranger, kStranger), 0);
  expect_refused("share.sock'");
  // A stranger's process listens, and everything else looks right.
  std::filesystem::remove(path_);
  listener.reset();
  ASSERT_EQ(chown(folder_.c_str(), kStranger, kStranger), 0);
  ASSERT_EQ(seteuid(kStranger), 0);
  const Socket strange = listen_at(path_);
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_EQ(chown(folder_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  expect_refused("the daemon at '");
}

TEST_F(TrustedDaemon, OfRootIsOneForOtherUsersAndPermissionIsToldApart) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may act as another user";
  const Socket listener = listen_at(path_);
  chmod(path_.c_str(), 0600);
  ASSERT_EQ(seteuid(kOther), 0);
  const DaemonConnection closed = connect_to_daemon(path_, {});
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(closed.failure, Failure::no_permission);
  EXPECT_THAT(closed.why, testing::HasSubstr("is denied"));
  chmod(path_.c_str(), 0666);
  ASSERT_EQ(seteuid(kOther), 0);
  const DaemonConnection open = connect_to_daemon(path_, {});
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_TRUE(open.socket.is_open()) << open.why;
}

TEST(TrustedUsers, AreNamesAndNumbers) {
  EXPECT_THAT(parse_users("root,1002", "here"), testing::ElementsAre(0, 1002));
  EXPECT_THAT(parse_users("", "here"), testing::IsEmpty());
  test::expect_error_containing(ErrorKind::invalid_argument, "there is no user 'no such user', whom here names",
                                [] { parse_users("no such user", "here"); });
  setenv(kTrustVariable, "7", 1);
  EXPECT_THAT(trusted_by_environment(), testing::ElementsAre(7));
  unsetenv(kTrustVariable);
}

}  // namespace
}  // namespace tessera::lease::trusted_daemon_test
