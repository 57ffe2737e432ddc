#include "serve/http/connection.h"

#include <algorithm>
#include <utility>

namespace tessera::serve {
namespace asio = boost::asio;
namespace {

constexpr std::size_t kDiscardBytes = 16 << 10, kPieceBytes = 256 << 10;
constexpr std::int64_t kMostDiscardedBytes = 4 << 20;
constexpr std::chrono::seconds kTick{1};

}  // namespace

Connection::Connection(std::unique_ptr<Transport> transport, const HttpLimits& limits)
    : transport_(std::move(transport)), limits_(limits), timer_(transport_->socket().get_executor()) {}

// Setting a timer costs a system call and wakes another thread, and a request sets the time several times: the timer
// ticks and compares.
void Connection::expire_after(double seconds) {
  expiry_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  if (expiry_ < next_tick_) set_tick();
}

void Connection::set_tick() {
  next_tick_ = std::min(expiry_, Clock::now() + kTick);
  timer_.expires_at(next_tick_);
  timer_.async_wait([weak = weak_from_this()](const ErrorCode& error) {
    if (error) return;
    if (const auto self = weak.lock()) self->tick();
  });
}

void Connection::tick() {
  if (Clock::now() < next_tick_) return;  // it was set anew meanwhile
  if (Clock::now() >= expiry_) return close();
  set_tick();
}

void Connection::close() {
  ErrorCode ignored;
  never_expire();
  transport_->socket().close(ignored);
  timer_.cancel();
  then_ = nullptr;  // it may own the connection
  on_close();
}

void Connection::send(std::string header, std::string body, bool only_header, std::function<void()> then) {
  out_header_ = std::move(header);
  out_body_ = only_header ? std::string() : std::move(body);
  sent_ = 0;
  then_ = std::move(then);
  sending_since_ = Clock::now();
  send_piece();
}

void Connection::send_piece() {
  const std::size_t piece = std::min(out_body_.size() - sent_, kPieceBytes);
  std::vector<asio::const_buffer> buffers;
  if (sent_ == 0) buffers.push_back(asio::buffer(out_header_));
  if (piece > 0) buffers.push_back(asio::buffer(out_body_.data() + sent_, piece));
  const double seconds = std::chrono::duration<double>(Clock::now() - sending_since_).count();
  const double allowed =
      std::min(limits_.stall_seconds + static_cast<double>(sent_) / limits_.bytes_per_second, limits_.transfer_seconds);
  if (seconds > allowed) return close();
  expire_after(std::min(limits_.stall_seconds, std::max(limits_.transfer_seconds - seconds, 0.001)));
  transport_->write(std::move(buffers), [self = shared_from_this(), piece](const ErrorCode& error, std::size_t) {
    if (error) return self->close();
    self->sent_ += piece;
    self->on_sent(static_cast<std::int64_t>(piece));
    if (self->sent_ < self->out_body_.size()) return self->send_piece();
    self->out_body_ = {};
    std::exchange(self->then_, nullptr)();
  });
}

void Connection::close_gently() {
  ErrorCode error;
  transport_->socket().shutdown(Socket::shutdown_send, error);
  if (error) return close();
  expire_after(1);
  in_.consume(in_.size());
  discarded_ = 0;
  discard();
}

void Connection::discard() {
  transport_->socket().async_read_some(in_.prepare(kDiscardBytes),
                                       [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                                         self->discarded_ += static_cast<std::int64_t>(bytes);
                                         if (error || self->discarded_ > kMostDiscardedBytes) return self->close();
                                         self->discard();
                                       });
}

}  // namespace tessera::serve
