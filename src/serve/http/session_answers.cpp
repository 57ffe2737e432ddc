#include <sys/socket.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>

#include "serve/http/server_session.h"
#include "serve/observe/request_id.h"

namespace tessera::serve {
namespace asio = boost::asio;
namespace {

constexpr std::chrono::milliseconds kRetry{10}, kMostWait{2000};  // while the budget has too few bytes

}  // namespace

// --- the budget ---

// Another connection is asked to give up what it holds; `again` is called a little later.
void ServerSession::wait_for_bytes(std::function<void()> again) {
  if (is_abandoned_) return end_with(out_of_budget());
  if (waits_for_bytes_since_ == Clock::time_point()) waits_for_bytes_since_ = Clock::now();
  if (Clock::now() - waits_for_bytes_since_ > kMostWait) return end_with(out_of_budget());
  shared_.bodies.abandon_slowest();
  pause_.expires_after(kRetry);
  pause_.async_wait([self = self(), again = std::move(again)](const ErrorCode&) {
    if (!self->transport().socket().is_open()) return;
    again();
  });
}

// By any thread. A read that is pending ends, and its handler answers; what is being sent is broken off.
void ServerSession::abandon(const std::weak_ptr<Connection>& weak) {
  const auto self = std::static_pointer_cast<ServerSession>(weak.lock());
  if (!self) return;
  asio::post(self->executor(), [self] {
    if (self->waits_ || self->is_idle_) return;  // the transfer has ended meanwhile
    if (self->is_sending_) return self->close();
    ErrorCode ignored;
    self->is_abandoned_ = true;
    self->transport().socket().cancel(ignored);
  });
}

void ServerSession::release_body() {
  lease_.end_transfer();
  lease_.release();
  waits_for_bytes_since_ = {};
  is_abandoned_ = false;
}

// --- answering ---

void ServerSession::handle() {
  never_expire();
  lease_.end_transfer();
  waits_ = true;
  std::shared_ptr<Call> call = handler_.handle(std::move(head_), [self = self()](HttpResponse response) {
    asio::dispatch(self->executor(),
                   [self, response = std::move(response)]() mutable { self->answer(std::move(response)); });
  });
  if (!waits_) return;  // it has been answered by this thread
  call_ = std::move(call);
  watch();
}

// While the request is computed, the client may go. A wait that an earlier request began may still be pending.
void ServerSession::watch() {
  if (std::exchange(watches_, true)) return;
  transport().socket().async_wait(Socket::wait_read, [weak = weak_from_this()](const ErrorCode& error) {
    const auto self = std::static_pointer_cast<ServerSession>(weak.lock());
    if (!self) return;
    self->watches_ = false;
    if (error || !self->waits_) return;
    char byte = 0;
    const ssize_t found = ::recv(self->transport().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (found > 0) return;  // the next request has begun to come
    if (found < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return self->watch();  // what woke it has been read
    if (self->call_) self->call_->cancel();
  });
}

void ServerSession::answer(HttpResponse response) {
  if (response.stream) return begin_stream(std::move(response));
  waits_ = false;
  call_.reset();
  release_body();
  if (!transport().socket().is_open()) return;
  if (shared_.leaving || shared_.draining) keep_alive_ = false;
  send_when_left(std::make_shared<HttpResponse>(std::move(response)));
}

void ServerSession::end_with(HttpResponse response) {
  if (!transport().socket().is_open()) return;
  body_ = {};
  parser_->body() = {};
  release_body();
  keep_alive_ = false;
  send_now(std::move(response));
}

// A large answer waits until the budget holds it.
void ServerSession::send_when_left(const std::shared_ptr<HttpResponse>& response) {
  const auto bytes = static_cast<std::int64_t>(response->body.size());
  if (bytes > shared_.bodies.limit())
    return end_with(refusal(503, "the answer is larger than the server's budget for bodies"));
  if (!claim(bytes)) return wait_for_bytes([this, response] { send_when_left(response); });
  if (bytes > kSmallBytes) lease_.begin_transfer([weak = weak_from_this()] { abandon(weak); });
  send_now(std::move(*response));
}

void ServerSession::send_now(HttpResponse response) {
  if (request_id_.empty()) request_id_ = request_id("");
  std::string header = response_header(response, keep_alive_, request_id_);
  log_answer(response.status, is_head_ ? 0 : response.body.size());
  is_sending_ = true;
  send(std::move(header), std::move(response.body), is_head_, [self = self()] {
    self->is_sending_ = false;
    self->release_body();
    if (!self->keep_alive_) return self->close_gently();
    self->next_request();
  });
}

// --- an answer that is made while it is sent ---

// The client is watched meanwhile: the call is cancelled when it goes.
void ServerSession::begin_stream(HttpResponse response) {
  release_body();
  stream_ = std::move(response.stream);
  if (!transport().socket().is_open()) return stream_->close();
  framing_ = parser_->is_http_1_0() ? Framing::until_close : Framing::chunked;
  keep_alive_ = keep_alive_ && framing_ == Framing::chunked && !shared_.leaving && !shared_.draining;
  if (request_id_.empty()) request_id_ = request_id("");
  stream_status_ = response.status;
  stream_bytes_ = 0;
  stream_->attach([weak = weak_from_this()] {
    const auto self = std::static_pointer_cast<ServerSession>(weak.lock());
    if (self) asio::post(self->executor(), [self] { self->send_next_piece(); });
  });
  send_stream(response_header(response, keep_alive_, request_id_, framing_), {});
}

void ServerSession::send_next_piece() {
  if (!stream_ || !transport().socket().is_open()) return;
  if (!piece_) piece_ = stream_->take();
  if (!piece_) return never_expire();  // until the maker wakes this connection
  if (!claim(static_cast<std::int64_t>(piece_->bytes.size()))) return wait_for_stream_bytes();
  ReplyStream::Piece piece = *std::exchange(piece_, std::nullopt);
  stream_bytes_ += piece.bytes.size();
  is_last_piece_ = piece.is_last;
  std::string chunk_header;
  if (framing_ == Framing::chunked && !piece.bytes.empty()) {
    chunk_header = fmt::format("{:x}\r\n", piece.bytes.size());
    piece.bytes += "\r\n";
  }
  if (framing_ == Framing::chunked && piece.is_last) piece.bytes += "0\r\n\r\n";
  if (piece.bytes.empty()) return end_stream();
  send_stream(std::move(chunk_header), std::move(piece.bytes));
}

// The header has been sent: what cannot be held ends the connection, so that the client sees that the body is cut.
void ServerSession::wait_for_stream_bytes() {
  if (waits_for_bytes_since_ == Clock::time_point()) waits_for_bytes_since_ = Clock::now();
  if (Clock::now() - waits_for_bytes_since_ > kMostWait) return close();
  shared_.bodies.abandon_slowest();
  pause_.expires_after(kRetry);
  pause_.async_wait([self = self()](const ErrorCode&) { self->send_next_piece(); });
}

void ServerSession::send_stream(std::string header, std::string body) {
  send(std::move(header), std::move(body), false, [self = self()] {
    self->release_body();
    if (self->is_last_piece_) return self->end_stream();
    self->stream_->sent();
    self->send_next_piece();
  });
}

void ServerSession::end_stream() {
  waits_ = false;
  is_last_piece_ = false;
  call_.reset();
  stream_.reset();
  log_answer(stream_status_, stream_bytes_);
  if (!keep_alive_) return close_gently();
  next_request();
}

void ServerSession::log_answer(int status, std::size_t bytes) {
  if (shared_.access_log == nullptr) return;
  if (!record_) record_ = make_record(head_, address_);  // the header could not be read
  record_->id = request_id_;
  const auto lasted = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_);
  end_record(*record_, status, received_, bytes, lasted.count());
  shared_.access_log->add(*record_);
}

}  // namespace tessera::serve
