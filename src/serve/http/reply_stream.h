// The body of an answer that is made while it is sent.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace tessera::serve {

// Carries bytes from their maker to the connection. The bytes that wait are bounded because the maker waits for `next`
// before it writes more. Thread-safe; callbacks are called without a lock held.
class ReplyStream {
 public:
  // Bytes that may wait; a piece that is larger waits alone.
  static constexpr std::size_t kMostWaitingBytes = 64 << 10;
  using Next = std::function<void(bool is_open)>;

  // By the maker. `next` is called exactly once: with true when fewer than kMostWaitingBytes wait, maybe before this
  // returns, and with false once the connection is closed; the bytes are dropped then.
  void write(std::string bytes, Next next);
  // The last call of the maker.
  void end();

  // By the connection, once. `wake` is called when there is something to take after take() returned nothing.
  void attach(std::function<void()> wake);
  struct Piece {
    std::string bytes;
    bool is_last = false;
  };
  // All that waits, or nothing if there is nothing yet.
  std::optional<Piece> take();
  // The piece that was taken has been sent: the maker may write on.
  void sent();
  // The connection is closed.
  void close();

 private:
  std::mutex mutex_;
  std::string waiting_;
  Next next_;
  std::function<void()> wake_;
  bool has_ended_ = false, is_closed_ = false, sleeps_ = false;
};

}  // namespace tessera::serve
