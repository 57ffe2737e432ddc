#include "share/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/text.h"

namespace tessera::share {

struct Daemon::Peer {
  lease::Socket socket, process;  // the second is a pidfd
  pid_t pid = 0;
  std::int64_t connected_ns = 0;
  int number = -1;  // of its job; −1: it is not attached
  bool gone = false;
};

namespace {

constexpr std::size_t kMostPeers = 256;
// A connection that has neither attached nor asked for the status for so long is closed.
constexpr std::int64_t kMostSilenceNs = 2'000'000'000;
constexpr std::int64_t kMostPollNs = 200'000'000;

std::int64_t now() {
  return Clock::steady().now_ns();
}

// The folder of the socket: made for this user alone, and refused where it is another's, who could put a socket of
// their own in its place.
void make_folder(const std::string& folder, bool for_others) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  const bool made = mkdir(folder.c_str(), for_others ? 0711 : 0700) == 0;
  require(made || errno == EEXIST, ErrorKind::io, "cannot make the folder '{}' of the daemon's socket: {}", folder,
          std::strerror(errno));
  struct stat status{};
  require(lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode), ErrorKind::io,
          "'{}', where the daemon's socket is to be, is no folder", folder);
  const bool shared = (status.st_mode & 0022) != 0 && (status.st_mode & S_ISVTX) == 0;
  require((status.st_uid == getuid() || status.st_uid == 0) && !shared, ErrorKind::io,
          "the folder '{}' belongs to another user or may be changed by others, who could take the daemon's place; "
          "name a socket in a folder of yours by --socket",
          folder);
}

}  // namespace

Daemon::Daemon(const DaemonOptions& options)
    : options_(options),
      path_(options.socket.empty() ? lease::default_socket_path() : options.socket),
      leases_(options.policy, options.memory_bytes > 0 ? options.memory_bytes : base::usable_memory_bytes()),
      kick_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  listen();
}

Daemon::~Daemon() {
  if (listener_.is_open()) unlink(path_.c_str());
}

void Daemon::listen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  require(path_.size() < sizeof(address.sun_path), ErrorKind::invalid_argument,
          "the path '{}' of the daemon's socket has {} bytes, and at most {} are possible", path_, path_.size(),
          sizeof(address.sun_path) - 1);
  path_.copy(address.sun_path, path_.size());
  const std::string folder = std::filesystem::absolute(path_).parent_path().string();
  make_folder(folder, !options_.users.empty());
  const std::string lock = path_ + ".lock";
  lock_ = lease::Socket(open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  require(lock_.is_open(), ErrorKind::io, "cannot write '{}': {}", lock, std::strerror(errno));
  require(flock(lock_.descriptor(), LOCK_EX | LOCK_NB) == 0, ErrorKind::failed,
          "another sharing daemon listens at '{}'; 'tessera share status' shows its jobs", path_);
  struct stat found{};
  const bool is_there = lstat(path_.c_str(), &found) == 0;
  require(!is_there || S_ISSOCK(found.st_mode), ErrorKind::invalid_argument,
          "'{}' is there, and is no socket: name another path for the daemon's", path_);
  if (is_there) unlink(path_.c_str());  // of a daemon that has gone: this one has the lock
  listener_ = lease::Socket(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const mode_t before = umask(0177);
  const bool bound =
      listener_.is_open() && bind(listener_.descriptor(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  const int error = errno;
  umask(before);
  require(bound && ::listen(listener_.descriptor(), 64) == 0, ErrorKind::io, "cannot listen at '{}': {}", path_,
          std::strerror(error));
  if (!options_.users.empty()) chmod(path_.c_str(), 0666);  // who connects is looked at in accept_peer
}

void Daemon::accept_peer() {
  lease::Socket socket(accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ucred who{};
  socklen_t size = sizeof(who);
  if (!socket.is_open() || peers_.size() >= kMostPeers) return;
  if (getsockopt(socket.descriptor(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  if (who.uid != getuid() && std::ranges::find(options_.users, who.uid) == options_.users.end()) return;
  lease::Socket process(static_cast<int>(syscall(SYS_pidfd_open, who.pid, 0)));
  if (!process.is_open()) return;  // it has gone already
  peers_.push_back({std::move(socket), std::move(process), who.pid, now()});
}

bool Daemon::answer(Peer& peer) {
  lease::Request request;
  const std::int64_t size = lease::receive_packet(peer.socket.descriptor(), &request, sizeof(request));
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  if (size != sizeof(request) || request.magic != lease::kMagic || request.version != lease::kVersion) return false;
  switch (request.kind) {
    case lease::LeaseMessageKind::attach:
      return attach(peer, request);
    case lease::LeaseMessageKind::charge:
      return charge(peer, request);
    case lease::LeaseMessageKind::borrow:
      return lend(peer, request);
    case lease::LeaseMessageKind::release:
    case lease::LeaseMessageKind::give_back:
      try {
        if (request.kind == lease::LeaseMessageKind::release) leases_.release(peer.number, request.bytes);
        else leases_.give_back(peer.number, request.bytes, now());
        return true;
      } catch (const Error&) {
        return false;
      }
    case lease::LeaseMessageKind::status:
      return send_status(peer);
  }
  return false;
}

bool Daemon::attach(Peer& peer, const lease::Request& request) {
  if (peer.number >= 0 || request.priority >= static_cast<std::uint32_t>(kPriorities)) return false;
  lease::Reply reply;
  try {
    peer.number = leases_.add_job({.name = base::printable(request.text.str()),
                                   .priority = static_cast<Priority>(request.priority),
                                   .weight = request.weight,
                                   .goal_ns = request.goal_ns,
                                   .guarantee_bytes = request.bytes,
                                   .limit_bytes = request.bytes},
                                  peer.pid, now());
    reply.granted = 1;
    reply.slot = peer.number;
  } catch (const Error& error) {
    reply.text.set(error.message());
  }
  const int descriptors[2] = {leases_.board().descriptor(), kick_.descriptor()};
  const std::span<const int> sent = reply.granted != 0 ? std::span<const int>(descriptors) : std::span<const int>();
  return lease::send_packet(peer.socket.descriptor(), &reply, sizeof(reply), sent);
}

bool Daemon::charge(Peer& peer, const lease::Request& request) {
  if (peer.number < 0 || request.bytes < 0) return false;
  lease::Reply reply;
  try {
    leases_.charge(peer.number, request.bytes, base::printable(request.text.str()));
    reply.granted = 1;
  } catch (const Error& error) {
    reply.text.set(error.message());
  }
  return lease::send_packet(peer.socket.descriptor(), &reply, sizeof(reply));
}

bool Daemon::lend(const Peer& peer, const lease::Request& request) {
  lease::Reply reply;
  try {
    reply.granted = leases_.borrow(peer.number, request.bytes, request.quiet_ns, now());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::over_budget) return false;
    reply.text.set(error.message());
  }
  return lease::send_packet(peer.socket.descriptor(), &reply, sizeof(reply));
}

bool Daemon::send_status(const Peer& peer) const {
  const std::string text = status_text(options_.policy, leases_.report(), now());
  return text.size() <= lease::kMostStatusBytes &&
         lease::send_packet(peer.socket.descriptor(), text.data(), text.size());
}

void Daemon::drop(Peer& peer) {
  peer.gone = true;
  if (peer.number >= 0) leases_.remove_job(peer.number, now());
}

void Daemon::drop_unattached(std::int64_t now_ns) {
  for (Peer& peer : peers_) {
    if (peer.number < 0 && now_ns - peer.connected_ns > kMostSilenceNs) peer.gone = true;
  }
  peers_.remove_if([](const Peer& peer) { return peer.gone; });
}

void Daemon::serve(const Cancellation& cancellation) {
  std::vector<pollfd> watched;
  while (!cancellation.flag().load()) {
    const std::int64_t now_ns = now();
    const std::int64_t wait_ns = std::min(leases_.look(now_ns) - now_ns, kMostPollNs);
    drop_unattached(now_ns);
    watched = {{listener_.descriptor(), POLLIN, 0}, {kick_.descriptor(), POLLIN, 0}};
    for (const Peer& peer : peers_) {
      watched.push_back({peer.socket.descriptor(), POLLIN, 0});
      watched.push_back({peer.process.descriptor(), POLLIN, 0});
    }
    constexpr std::int64_t kSecond = 1'000'000'000;
    const timespec timeout{wait_ns / kSecond, std::max<std::int64_t>(wait_ns % kSecond, 50'000)};
    if (ppoll(watched.data(), watched.size(), &timeout, nullptr) <= 0) continue;
    std::uint64_t kicks = 0;
    [[maybe_unused]] const ssize_t read_bytes = read(kick_.descriptor(), &kicks, sizeof(kicks));
    std::size_t at = 2;
    for (Peer& peer : peers_) {
      const bool ended = watched[at + 1].revents != 0;
      const bool speaks = watched[at].revents != 0;
      at += 2;
      if (ended || (speaks && !answer(peer))) drop(peer);
    }
    if (watched[0].revents != 0) accept_peer();
  }
}

}  // namespace tessera::share
