// The messages between a daemon and an attached process: packets on a Unix socket (SOCK_SEQPACKET), each of which is
// one of these structures, sometimes with file descriptors (SCM_RIGHTS). Both run on one machine, so numbers are in its
// byte order.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::lease {

inline constexpr std::uint32_t kMagic = 0x48535354, kVersion = 2;  // "TSSH"
inline constexpr std::size_t kMostStatusBytes = 128 << 10;

enum class LeaseMessageKind : std::uint32_t { attach, charge, release, status, borrow, give_back };

template <std::size_t N>
struct Text {
  std::array<char, N> bytes{};  // ends with a zero

  void set(std::string_view text) {
    const std::size_t size = text.copy(bytes.data(), N - 1);
    bytes[size] = 0;
  }
  std::string str() const {
    const std::string_view all(bytes.data(), N);
    return std::string(all.substr(0, all.find('\0')));
  }
};

// All requests have this layout, but each kind uses only some of the members.
struct Request {
  std::uint32_t magic = kMagic, version = kVersion;
  LeaseMessageKind kind = LeaseMessageKind::status;
  std::uint32_t priority = 1;  // attach
  double weight = 1;           // attach
  std::int64_t goal_ns = 0;    // attach
  std::int64_t quiet_ns = 0;   // borrow, for memory that was spilled: how long others must have left it alone
  std::int64_t bytes = 0;      // attach: guarantee and limit; otherwise bytes of the job's memory
  Text<64> text;               // attach: the job's name; charge: what the memory is for
};

// The reply to attach, charge and borrow. If an attach is granted, the reply comes with the descriptors of the board
// and of the eventfd that wakes the daemon.
struct Reply {
  std::uint32_t magic = kMagic, version = kVersion;
  std::uint32_t granted = 0;
  std::int32_t slot = -1;
  Text<496> text;  // why it was refused; empty for a borrow that may be granted later
};

// A socket that the destructor closes.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() { reset(); }
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  void reset();
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// TESSERA_SHARE_SOCKET, or $XDG_RUNTIME_DIR/tessera/share.sock, or /tmp/tessera-UID/share.sock.
std::string default_socket_path();
// A connection whose sends and receives take at most one second. If it fails, a closed one, with errno set. Who
// listens there may be a stranger: connect_to_daemon in lease/trusted_daemon.h checks.
Socket connect_to(const std::string& path);

// Sends a packet with descriptors. Returns whether all of it was sent. Never blocks if the socket is non-blocking.
bool send_packet(int socket, const void* data, std::size_t size, std::span<const int> descriptors = {});
// Receives a packet. Returns its size; 0 at the end of the connection; −1 for an error (errno), and for a packet that
// is larger than `size` (EMSGSIZE). Appends the descriptors that came with it (at most 4), which the caller has to
// close.
std::int64_t receive_packet(int socket, void* data, std::size_t size, std::vector<int>* descriptors = nullptr);

// Asks the daemon at the path for its state, as JSON text. Throws Error(not_found) if no daemon listens there, and
// Error(io), also for a daemon that belongs neither to this user nor to root nor to one of `trusted`.
std::string request_status(const std::string& path, std::span<const uid_t> trusted = {});

}  // namespace tessera::lease
