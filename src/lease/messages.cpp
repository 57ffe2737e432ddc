#include "lease/messages.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "lease/trusted_daemon.h"

namespace tessera::lease {
namespace {

constexpr std::size_t kMostDescriptors = 4;

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    reset();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::reset() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

std::string default_socket_path() {
  if (const char* path = std::getenv("TESSERA_SHARE_SOCKET"); path != nullptr && *path != '\0') return path;
  if (const char* folder = std::getenv("XDG_RUNTIME_DIR"); folder != nullptr && *folder != '\0')
    return std::string(folder) + "/tessera/share.sock";
  return fmt::format("/tmp/tessera-{}/share.sock", getuid());
}

Socket connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return Socket();
  }
  path.copy(address.sun_path, path.size());
  Socket socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return socket;
  const timeval most{1, 0};
  setsockopt(socket.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
  setsockopt(socket.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
  if (connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return socket;
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

bool send_packet(int socket, const void* data, std::size_t size, std::span<const int> descriptors) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty() && descriptors.size() <= kMostDescriptors) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = -1;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(size);
}

std::int64_t receive_packet(int socket, void* data, std::size_t size, std::vector<int>* descriptors) {
  iovec part{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received = -1;
  do received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received < 0) return -1;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      if (descriptors != nullptr) descriptors->push_back(descriptor);
      else close(descriptor);
    }
  }
  if ((message.msg_flags & MSG_TRUNC) == 0) return received;
  errno = EMSGSIZE;
  return -1;
}

std::string request_status(const std::string& path, std::span<const uid_t> trusted) {
  const DaemonConnection found = connect_to_daemon(path, trusted);
  require(found.failure != DaemonConnection::Failure::no_daemon, ErrorKind::not_found,
          "{}; start one by 'tessera share daemon', or name its socket by --socket", found.why);
  require(found.socket.is_open(), ErrorKind::io, "{}", found.why);
  const Socket& socket = found.socket;
  const Request request{.kind = LeaseMessageKind::status};
  std::string text(kMostStatusBytes, '\0');
  std::int64_t size = -1;
  if (send_packet(socket.descriptor(), &request, sizeof(request)))
    size = receive_packet(socket.descriptor(), text.data(), text.size());
  require(size > 0, ErrorKind::io, "the sharing daemon at '{}' did not answer{}", path,
          size == 0 ? ": it closed the connection, as it does for users that it does not know" : "");
  text.resize(static_cast<std::size_t>(size));
  return text;
}

}  // namespace tessera::lease
