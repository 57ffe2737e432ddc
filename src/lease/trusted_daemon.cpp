#include "lease/trusted_daemon.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "lease/job_description.h"

namespace tessera::lease {
namespace {

using Failure = DaemonConnection::Failure;

std::string name_of_user(uid_t user) {
  const passwd* const known = getpwuid(user);
  return known != nullptr ? fmt::format("'{}'", known->pw_name) : fmt::format("number {}", user);
}

bool is_trusted(uid_t user, std::span<const uid_t> trusted) {
  return user == geteuid() || user == 0 || std::ranges::find(trusted, user) != trusted.end();
}

DaemonConnection failed(Failure failure, std::string why) {
  return {Socket(), failure, std::move(why)};
}

DaemonConnection not_trusted(const std::string& what, uid_t owner) {
  return failed(Failure::not_trusted,
                fmt::format("{} belongs to the user {}, who could make this process wait at will; where you trust that "
                            "user, say so by --trust or TESSERA_SHARE_TRUST",
                            what, name_of_user(owner)));
}

DaemonConnection unreachable(const std::string& path, int error) {
  if (error == EACCES || error == EPERM)
    return failed(Failure::no_permission,
                  fmt::format("the permission to connect to the sharing daemon at '{}' is denied: it belongs to "
                              "another user, whose configuration may name yours among its users",
                              path));
  return failed(Failure::no_daemon, fmt::format("no sharing daemon listens at '{}' ({})", path, std::strerror(error)));
}

}  // namespace

DaemonConnection connect_to_daemon(const std::string& path, std::span<const uid_t> trusted) {
  std::error_code error;
  const std::string folder = std::filesystem::absolute(path, error).parent_path().string();
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) return unreachable(path, errno);
  if (!is_trusted(status.st_uid, trusted)) return not_trusted(fmt::format("the folder '{}'", folder), status.st_uid);
  if ((status.st_mode & 0022) != 0 && (status.st_mode & S_ISVTX) == 0)
    return failed(Failure::not_trusted,
                  fmt::format("the folder '{}' may be changed by other users, who could put a daemon of theirs there; "
                              "take their permission to write away",
                              folder));
  if (::lstat(path.c_str(), &status) != 0) return unreachable(path, errno);
  if (!is_trusted(status.st_uid, trusted)) return not_trusted(fmt::format("'{}'", path), status.st_uid);
  DaemonConnection connection{connect_to(path)};
  if (!connection.socket.is_open()) return unreachable(path, errno);
  ucred peer{};  // of the process that began to listen, which no change of the path since then can forge
  socklen_t size = sizeof(peer);
  if (getsockopt(connection.socket.descriptor(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return unreachable(path, errno);
  if (!is_trusted(peer.uid, trusted)) return not_trusted(fmt::format("the daemon at '{}'", path), peer.uid);
  return connection;
}

std::vector<uid_t> parse_users(const std::string& list, const std::string& where) {
  std::vector<uid_t> users;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    uid_t number = 0;
    const auto [last, code] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (code != std::errc() || last != name.data() + name.size()) {
      const passwd* const known = getpwnam(name.c_str());
      require(known != nullptr, ErrorKind::invalid_argument, "there is no user '{}', whom {} names", name, where);
      number = known->pw_uid;
    }
    users.push_back(number);
  }
  return users;
}

std::vector<uid_t> trusted_by_environment() {
  const char* const list = std::getenv(kTrustVariable);
  return list != nullptr ? parse_users(list, kTrustVariable) : std::vector<uid_t>();
}

}  // namespace tessera::lease
