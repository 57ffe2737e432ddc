// The connection of two parties: TCP, mutually authenticated and encrypted by the key that their files share
// (ChaCha20-Poly1305, with keys of this connection alone). Lengths are known on both sides and are not read from the
// wire, so that a peer can cause no allocation.
#pragma once

#include <string>

#include "protect/secret_shared/shared_party.h"

namespace tessera::protect {

// A connected socket, or another descriptor that both reads and writes; closed at the end.
class PeerSocket {
 public:
  // Takes the descriptor over. `timeout_s` is for each exchange.
  PeerSocket(int descriptor, double timeout_s);
  // Waits for a connection at HOST:PORT, or connects there, until the time is over. Throws Error: invalid_argument
  // (an address that is none), failed. `is_taken`: whether another process listens there; this one then connects to
  // it, so that the greetings tell both processes what is wrong.
  static PeerSocket listen_at(const std::string& address, double timeout_s, bool& is_taken);
  static PeerSocket connect_to(const std::string& address, double timeout_s);
  ~PeerSocket();
  PeerSocket(PeerSocket&& other) noexcept;
  PeerSocket& operator=(PeerSocket&&) = delete;

  // Sends and receives at once, so that neither side waits for the other one to read. Throws Error(failed).
  void exchange(std::span<const std::uint8_t> own, std::span<std::uint8_t> other);

 private:
  int descriptor_ = -1;
  double timeout_s_ = 0;
};

// The first message of both parties.
struct PeerGreeting {
  int party = 0;
  PublicId pair{};
  Bytes message_key;  // which the message proves to be known, and does not show
  std::uint64_t next_run = 0;
};

class SecureChannel : public PeerChannel {
 public:
  // Exchanges greetings. Throws Error: invalid_argument (the peer has other shares, or the same one), failed.
  SecureChannel(PeerSocket socket, const PeerGreeting& own);
  void exchange(std::span<const Word> own, std::span<Word> other) override;

  std::uint64_t peers_next_run() const { return peers_next_run_; }
  std::int64_t rounds() const { return rounds_; }
  std::int64_t bytes_sent() const { return bytes_sent_; }

 private:
  PeerSocket socket_;
  Secret sending_, receiving_;  // keys of this connection
  std::uint64_t peers_next_run_ = 0;
  std::int64_t rounds_ = 0, bytes_sent_ = 0;
};

}  // namespace tessera::protect
