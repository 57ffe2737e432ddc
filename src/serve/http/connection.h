// One connection's socket with its deadlines: bytes come and go, and what takes too long ends it.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/limits.h"
#include "serve/http/transport.h"

namespace tessera::serve {

// Everything is called on the socket's strand, except where another thread is named.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(std::unique_ptr<Transport> transport, const HttpLimits& limits);
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 protected:
  // Called when the connection is closed, also by a deadline.
  virtual void on_close() {}
  // Called after each piece of an answer that has been sent.
  virtual void on_sent(std::int64_t bytes) { static_cast<void>(bytes); }

  Transport& transport() { return *transport_; }
  boost::asio::any_io_executor executor() { return transport_->socket().get_executor(); }
  const HttpLimits& limits() const { return limits_; }

  // The connection is closed when so many seconds have passed, unless another time is set before.
  void expire_after(double seconds);
  void never_expire() { expiry_ = Clock::time_point::max(); }
  void close();
  // Reads for a moment what the client still sends, so that it does not lose the answer to a reset, and closes.
  void close_gently();

  // Sends a header and a body piece by piece, each within limits().stall_seconds and at the least rate, all of it
  // within limits().transfer_seconds; then calls `then`. The connection is closed if the client takes it too slowly.
  void send(std::string header, std::string body, bool only_header, std::function<void()> then);

  boost::beast::flat_buffer in_;

 private:
  void set_tick();
  void tick();
  void send_piece();
  void discard();

  std::unique_ptr<Transport> transport_;
  const HttpLimits& limits_;
  boost::asio::steady_timer timer_;
  Clock::time_point expiry_ = Clock::time_point::max(), next_tick_ = Clock::time_point::max(), sending_since_;
  std::string out_header_, out_body_;
  std::size_t sent_ = 0;  // bytes of out_body_
  std::function<void()> then_;
  std::int64_t discarded_ = 0;
};

}  // namespace tessera::serve
