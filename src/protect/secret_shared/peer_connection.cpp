#include "protect/secret_shared/peer_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/package/byte_stream.h"

namespace tessera::protect {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kHello = "TSRPEER1";
constexpr std::size_t kMacBytes = 32, kHelloBytes = 8 + 8 + 32 + 8 + 32 + kMacBytes;
constexpr std::size_t kTag = crypto_aead_chacha20poly1305_ietf_ABYTES;

// Milliseconds to a time, for poll().
int left_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string last_error() {
  return std::generic_category().message(errno);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& address, bool is_own) {
  const std::size_t colon = address.rfind(':');
  require(colon != std::string::npos && colon > 0 && colon + 1 < address.size(), ErrorKind::invalid_argument,
          "'{}' is no address of a peer; expected HOST:PORT, such as 127.0.0.1:7400", address);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (is_own ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  require(error == 0, ErrorKind::invalid_argument, "'{}' is no address of a peer: {}", address, ::gai_strerror(error));
  return {found, &::freeaddrinfo};
}

int new_socket(const addrinfo& address) {
  const int descriptor = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  require(descriptor >= 0, ErrorKind::failed, "no socket for the peer: {}", last_error());
  return descriptor;
}

Secret derive(Bytes key, std::string_view purpose, Bytes context) {
  io::ByteWriter message;
  message.text(purpose);
  message.raw(std::as_bytes(context));
  const std::vector<std::byte> bytes = message.take();
  Secret derived(kSeedBytes);
  crypto_generichash(derived.data(), derived.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                     key.data(), key.size());
  return derived;
}

std::vector<std::uint8_t> hello_of(const PeerGreeting& greeting) {
  std::vector<std::uint8_t> hello(kHelloBytes);
  std::memcpy(hello.data(), kHello.data(), kHello.size());
  hello[8] = static_cast<std::uint8_t>(greeting.party);
  std::memcpy(hello.data() + 16, greeting.pair.data(), 32);
  std::memcpy(hello.data() + 48, &greeting.next_run, 8);
  randombytes_buf(hello.data() + 56, 32);
  const Secret mac = derive(greeting.message_key, "tessera peer", Bytes(hello).first(kHelloBytes - kMacBytes));
  std::ranges::copy(mac.bytes(), hello.end() - kMacBytes);
  return hello;
}

// Returns the peer's next run.
std::uint64_t check_hello(const PeerGreeting& own, const std::vector<std::uint8_t>& hello) {
  require(std::memcmp(hello.data(), kHello.data(), kHello.size()) == 0, ErrorKind::failed,
          "what answers at the peer's address is no secret-shared run of this version of Tessera");
  require(std::memcmp(hello.data() + 16, own.pair.data(), 32) == 0, ErrorKind::invalid_argument,
          "the peer has a share of another model, or one of another call of 'tessera protect'");
  const Secret mac = derive(own.message_key, "tessera peer", Bytes(hello).first(kHelloBytes - kMacBytes));
  require(sodium_memcmp(mac.data(), hello.data() + kHelloBytes - kMacBytes, kMacBytes) == 0, ErrorKind::failed,
          "the peer does not know the key of this pair of shares");
  require(hello[8] == 1 - own.party, ErrorKind::invalid_argument,
          "the peer has the same share as this process; give it the other one of the two files");
  std::uint64_t run = 0;
  std::memcpy(&run, hello.data() + 48, 8);
  return run;
}

std::array<std::uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> nonce_of_round(std::int64_t round) {
  std::array<std::uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> nonce{};
  std::memcpy(nonce.data(), &round, sizeof(round));
  return nonce;
}

}  // namespace

PeerSocket::PeerSocket(int descriptor, double timeout_s) : descriptor_(descriptor), timeout_s_(timeout_s) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // of other sockets without effect
}

PeerSocket::PeerSocket(PeerSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), timeout_s_(other.timeout_s_) {}

PeerSocket::~PeerSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

PeerSocket PeerSocket::listen_at(const std::string& address, double timeout_s, bool& is_taken) {
  const Addresses addresses = addresses_of(address, true);
  const PeerSocket listening(new_socket(*addresses), timeout_s);
  const int on = 1;
  ::setsockopt(listening.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool is_listening = ::bind(listening.descriptor_, addresses->ai_addr, addresses->ai_addrlen) == 0 &&
                            ::listen(listening.descriptor_, 1) == 0;
  is_taken = !is_listening && errno == EADDRINUSE;
  if (is_taken) return connect_to(address, timeout_s);
  require(is_listening, ErrorKind::failed, "cannot listen at '{}': {}", address, last_error());
  pollfd waiting{listening.descriptor_, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, left_until(after(timeout_s)));
  require(ready > 0, ErrorKind::failed, "no peer came to '{}' in {} s", address, timeout_s);
  const int descriptor = ::accept4(listening.descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  require(descriptor >= 0, ErrorKind::failed, "the peer's connection failed: {}", last_error());
  return {descriptor, timeout_s};
}

PeerSocket PeerSocket::connect_to(const std::string& address, double timeout_s) {
  constexpr int kBetweenTriesMs = 50;
  const Addresses addresses = addresses_of(address, false);
  const Clock::time_point end = after(timeout_s);
  while (true) {
    PeerSocket socket(new_socket(*addresses), timeout_s);
    int error = ::connect(socket.descriptor_, addresses->ai_addr, addresses->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd waiting{socket.descriptor_, POLLOUT, 0};
      socklen_t size = sizeof(error);
      if (::poll(&waiting, 1, left_until(end)) <= 0) error = ETIMEDOUT;
      else ::getsockopt(socket.descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return socket;
    require(left_until(end) > 0, ErrorKind::failed,
            "no peer answers at '{}' in {} s, where the process with the first of the two files has to listen: {}",
            address, timeout_s, std::generic_category().message(error));
    ::poll(nullptr, 0, std::min(kBetweenTriesMs, left_until(end)));
  }
}

void PeerSocket::exchange(std::span<const std::uint8_t> own, std::span<std::uint8_t> other) {
  const Clock::time_point end = after(timeout_s_);
  const auto may_retry = [] { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; };
  while (!own.empty() || !other.empty()) {
    pollfd waiting{descriptor_, static_cast<short>((own.empty() ? 0 : POLLOUT) | (other.empty() ? 0 : POLLIN)), 0};
    const int ready = ::poll(&waiting, 1, left_until(end));
    if (ready < 0 && errno == EINTR) continue;
    require(ready > 0, ErrorKind::failed, "the peer was not heard of in {} s", timeout_s_);
    if (!own.empty() && (waiting.revents & (POLLOUT | POLLERR | POLLHUP)) != 0) {
      const ::ssize_t sent = ::send(descriptor_, own.data(), own.size(), MSG_NOSIGNAL);
      // The last bytes of a peer that has gone may still be there to read.
      require(sent >= 0 || may_retry() || !other.empty(), ErrorKind::failed, "the peer has gone: {}", last_error());
      if (sent > 0) own = own.subspan(static_cast<std::size_t>(sent));
      else if (sent < 0 && !may_retry()) own = {};
    }
    if (!other.empty() && (waiting.revents & (POLLIN | POLLERR | POLLHUP)) != 0) {
      const ::ssize_t got = ::recv(descriptor_, other.data(), other.size(), 0);
      require(got > 0 || (got < 0 && may_retry()), ErrorKind::failed, "the peer has gone{}{}", got < 0 ? ": " : "",
              got < 0 ? last_error() : std::string());
      if (got > 0) other = other.subspan(static_cast<std::size_t>(got));
    }
  }
}

SecureChannel::SecureChannel(PeerSocket socket, const PeerGreeting& own) : socket_(std::move(socket)) {
  const std::vector<std::uint8_t> hello = hello_of(own);
  std::vector<std::uint8_t> answer(kHelloBytes);
  socket_.exchange(hello, answer);
  peers_next_run_ = check_hello(own, answer);
  // A direction's key is that of its sender's greeting, followed by the other one.
  const auto key_of = [&](const std::vector<std::uint8_t>& from, const std::vector<std::uint8_t>& to) {
    std::vector<std::uint8_t> both = from;
    both.insert(both.end(), to.begin(), to.end());
    return derive(own.message_key, "tessera messages", both);
  };
  sending_ = key_of(hello, answer);
  receiving_ = key_of(answer, hello);
}

void SecureChannel::exchange(std::span<const Word> own, std::span<Word> other) {
  std::vector<std::uint8_t> sent(own.size_bytes() + kTag), received(other.size_bytes() + kTag);
  const auto nonce = nonce_of_round(rounds_++);
  crypto_aead_chacha20poly1305_ietf_encrypt(sent.data(), nullptr, reinterpret_cast<const std::uint8_t*>(own.data()),
                                            own.size_bytes(), nullptr, 0, nullptr, nonce.data(), sending_.data());
  socket_.exchange(sent, received);
  bytes_sent_ += static_cast<std::int64_t>(sent.size());
  const bool is_authentic = crypto_aead_chacha20poly1305_ietf_decrypt(
                                reinterpret_cast<std::uint8_t*>(other.data()), nullptr, nullptr, received.data(),
                                received.size(), nullptr, 0, nonce.data(), receiving_.data()) == 0;
  require(is_authentic, ErrorKind::failed, "message {} of the peer is not authentic", rounds_);
}

}  // namespace tessera::protect
