#include "serve/grpc/connections.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "serve/core/operations/log.h"

namespace tessera::serve {
namespace {

constexpr std::chrono::milliseconds kPause{50};  // where no descriptor is left

// "HOST:PORT", where the host may stand in brackets.
std::pair<std::string, std::string> parts_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  require(colon != std::string::npos && colon > 0, ErrorKind::invalid_argument,
          "'{}' is no address to listen on, expected HOST:PORT such as 127.0.0.1:8001", address);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

int listen_at(const addrinfo& where) {
  const int descriptor = ::socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  const int on = 1, off = 0;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (where.ai_family == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (::bind(descriptor, where.ai_addr, where.ai_addrlen) == 0 && ::listen(descriptor, SOMAXCONN) == 0)
    return descriptor;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

std::uint64_t socket_number(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 ? static_cast<std::uint64_t>(status.st_ino) : 0;
}

}  // namespace

GrpcConnections::GrpcConnections(const std::string& address, const Limits& limits) : limits_(limits) {
  const auto [host, service] = parts_of(address);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  require(fault == 0, ErrorKind::io, "cannot listen on {} for gRPC: {}", address, ::gai_strerror(fault));
  for (const addrinfo* each = found; each != nullptr && listener_ < 0; each = each->ai_next)
    listener_ = listen_at(*each);
  const int error = errno;
  ::freeaddrinfo(found);
  require(listener_ >= 0, ErrorKind::io, "cannot listen on {} for gRPC: {}", address, std::strerror(error));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &length);
  port_ = to_peer(reinterpret_cast<const sockaddr&>(own)).port;
  stop_ = ::eventfd(0, EFD_CLOEXEC);
}

GrpcConnections::~GrpcConnections() {
  stop();
  if (listener_ >= 0) ::close(listener_);
  if (stop_ >= 0) ::close(stop_);
}

void GrpcConnections::start(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { run(); });
}

void GrpcConnections::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_, &one, sizeof(one)));
  thread_.join();
  ::close(std::exchange(listener_, -1));
}

void GrpcConnections::run() {
  std::array<pollfd, 2> waits{pollfd{listener_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
  while (true) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[1].revents != 0) return;
    accept();
  }
}

void GrpcConnections::accept() {
  sockaddr_storage from{};
  socklen_t length = sizeof(from);
  const int descriptor =
      ::accept4(listener_, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) std::this_thread::sleep_for(kPause);
    return;
  }
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const PeerAddress peer = to_peer(reinterpret_cast<const sockaddr&>(from));
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!has_place(peer)) {
        ++refused_;
        ::close(descriptor);
        return;
      }
      places_[peer] = {descriptor, socket_number(descriptor), 0, Clock::now()};
    }
    take_(descriptor);
  } catch (...) {
    log_current_exception("a connection could not be served");
  }
}

// With the mutex held, like the functions below.
bool GrpcConnections::has_place(const PeerAddress& peer) {
  const auto of_peer = [&] {
    return std::distance(places_.lower_bound({peer.ip, 0}), places_.upper_bound({peer.ip, 65536}));
  };
  const auto all = [&] { return static_cast<std::int64_t>(places_.size()); };
  if (all() < limits_.all && of_peer() < limits_.per_peer) return true;
  forget_closed();
  if (of_peer() >= limits_.per_peer) return close_longest_idle(&peer.ip);
  return all() < limits_.all || close_longest_idle(nullptr);
}

void GrpcConnections::forget_closed() {
  std::erase_if(places_, [](const auto& each) { return socket_number(each.second.descriptor) != each.second.socket; });
}

bool GrpcConnections::close_longest_idle(const std::string* ip) {
  auto longest = places_.end();
  for (auto each = places_.begin(); each != places_.end(); ++each) {
    if (each->second.calls > 0 || (ip != nullptr && each->first.ip != *ip)) continue;
    if (longest == places_.end() || each->second.idle_since < longest->second.idle_since) longest = each;
  }
  if (longest == places_.end()) return false;
  // gRPC may close the descriptor meanwhile, and its number be given to another socket: this one stays what it is.
  const int held = ::fcntl(longest->second.descriptor, F_DUPFD_CLOEXEC, 0);
  if (held >= 0 && socket_number(held) == longest->second.socket) ::shutdown(held, SHUT_RDWR);
  if (held >= 0) ::close(held);
  places_.erase(longest);
  return true;
}

void GrpcConnections::begin_call(const PeerAddress& peer) {
  const std::lock_guard lock(mutex_);
  if (const auto found = places_.find(peer); found != places_.end()) ++found->second.calls;
}

void GrpcConnections::end_call(const PeerAddress& peer) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(peer);
  if (found == places_.end() || found->second.calls == 0) return;
  if (--found->second.calls == 0) found->second.idle_since = Clock::now();
}

std::int64_t GrpcConnections::open() {
  const std::lock_guard lock(mutex_);
  forget_closed();
  return static_cast<std::int64_t>(places_.size());
}

}  // namespace tessera::serve
