#include "serve/http/session.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <charconv>

#include "serve/core/operations/log.h"
#include "serve/http/server_session.h"

namespace tessera::serve {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace {

constexpr std::size_t kReadBytes = 64 << 10, kIdleReadBytes = 4 << 10;
constexpr std::size_t kKeptBufferBytes = 128 << 10;  // of a connection between two requests

}  // namespace

ServerSession::ServerSession(std::unique_ptr<Transport> transport, HttpShared& shared, HttpHandler& handler,
                             HttpSeat seat)
    : Connection(std::move(transport), shared.limits),
      shared_(shared),
      handler_(handler),
      seat_(std::move(seat)),
      lease_(shared.bodies),
      pause_(executor()) {
  ErrorCode error;
  const auto peer = this->transport().socket().remote_endpoint(error);
  if (!error) address_ = peer.address().to_string();
  set_idle(true);
}

void ServerSession::start() {
  asio::dispatch(executor(), [self = self()] { self->begin(); });
}

void ServerSession::close_if_idle() {
  idle_since_ = Clock::time_point::max().time_since_epoch().count();  // it is not asked a second time
  asio::post(executor(), [self = self()] {
    if (self->is_idle_) self->close();
  });
}

void ServerSession::on_close() {
  if (call_) call_->cancel();
  if (stream_) stream_->close();
}

void ServerSession::set_idle(bool is_idle) {
  is_idle_ = is_idle;
  idle_since_ = (is_idle ? Clock::now() : Clock::time_point::max()).time_since_epoch().count();
}

void ServerSession::begin() {
  ErrorCode ignored;
  transport().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  expire_after(limits().header_seconds);
  transport().handshake([self = self()](const ErrorCode& error, std::size_t) {
    if (error) return self->close();
    self->certificate_ = self->transport().certificate_name();
    if (self->seat_.is_refused) return self->end_with(refusal(503, "too many connections"));
    self->next_request();
  });
}

void ServerSession::next_request() {
  if (shared_.draining) return close();
  if (in_.size() == 0 && in_.capacity() > kKeptBufferBytes) in_ = {};
  parser_.emplace(static_cast<std::size_t>(limits().header_bytes));
  parser_->body_limit(static_cast<std::uint64_t>(limits().body_bytes));
  set_idle(in_.size() == 0);
  began_ = Clock::now();
  received_ = 0;
  filled_ = 0;
  header_is_checked_ = false;
  head_ = {};
  body_ = {};
  request_id_.clear();
  record_.reset();
  if (is_idle_) {
    expire_after(seat_.is_spare ? limits().header_seconds : limits().idle_seconds);
    read_more();
  } else {
    expire_after(limits().header_seconds);
    parse();
  }
}

void ServerSession::read_more() {
  transport().read_some(in_.prepare(is_idle_ ? kIdleReadBytes : kReadBytes),
                        [self = self()](const ErrorCode& error, std::size_t bytes) {
                          if (self->is_abandoned_) return self->end_with(out_of_budget());
                          if (error) return self->close();
                          self->in_.commit(bytes);
                          if (self->is_idle_) {
                            self->set_idle(false);
                            self->began_ = Clock::now();
                            self->expire_after(self->limits().header_seconds);
                          }
                          self->count(bytes);
                          self->parse();
                        });
}

void ServerSession::count(std::size_t bytes) {
  received_ += static_cast<std::int64_t>(bytes);
  lease_.moved(static_cast<std::int64_t>(bytes));
}

// A header must be there in a fixed time; a body must come at the least rate, and within a fixed time too.
bool ServerSession::is_too_slow() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (!parser_->is_header_done()) return seconds > limits().header_seconds;
  return seconds > std::min(limits().stall_seconds + static_cast<double>(received_) / limits().bytes_per_second,
                            limits().transfer_seconds);
}

void ServerSession::parse() {
  try {
    parse_received();
  } catch (const std::bad_alloc&) {
    end_with(out_of_budget());
  } catch (...) {
    log_current_exception("a request could not be read");
    end_with(refusal(500, "the request could not be read"));
  }
}

void ServerSession::parse_received() {
  ErrorCode error;
  while (true) {
    if (!claim(static_cast<std::int64_t>(parser_->body().size()))) return wait_for_bytes([this] { parse(); });
    if (parser_->is_done() || in_.size() == 0) break;
    const std::size_t used = parser_->put(in_.data(), error);
    in_.consume(used);
    if (error == http::error::need_more) {
      error = {};
      // The bytes left are a line, or a trailer section, whose end has not come.
      if (in_.size() > static_cast<std::size_t>(limits().header_bytes))
        return end_with(refusal(431, "a chunk's header or the trailer section is too large"));
      break;
    }
    if (error) {
      const RequestParser::Mistake mistake = parser_->mistake(error);
      return end_with(refusal(mistake.status, mistake.text));
    }
    if (parser_->is_header_done() && !header_is_checked_) {
      if (!check_header()) return;
      if (parser_->content_length() && !parser_->is_done()) return read_body();
    }
  }
  if (parser_->is_done()) {
    if (parser_->body().size() > 0) head_.body = parser_->body().take();
    return handle();
  }
  if (is_too_slow()) return end_with(refusal(408, "the request came too slowly"));
  if (parser_->is_header_done()) expire_after(limits().stall_seconds);
  read_more();
}

// A body whose length is known is read into the memory where its tensors will lie.
void ServerSession::read_body() {
  std::size_t json_bytes = 0;
  std::from_chars(head_.json_bytes.data(), head_.json_bytes.data() + head_.json_bytes.size(), json_bytes);
  body_ = BodyBuffer(static_cast<std::size_t>(*parser_->content_length()), json_bytes);
  filled_ = asio::buffer_copy(asio::buffer(body_.data(), body_.size()), in_.data());
  in_.consume(filled_);
  fill_body();
}

void ServerSession::fill_body() {
  if (!claim(static_cast<std::int64_t>(filled_))) return wait_for_bytes([this] { fill_body(); });
  if (filled_ == body_.size()) {
    head_.body = std::move(body_).body();
    body_ = {};
    return handle();
  }
  if (is_too_slow()) return end_with(refusal(408, "the request came too slowly"));
  expire_after(limits().stall_seconds);
  transport().read_some(asio::buffer(body_.data() + filled_, body_.size() - filled_),
                        [self = self()](const ErrorCode& error, std::size_t bytes) {
                          if (self->is_abandoned_) return self->end_with(out_of_budget());
                          if (error) return self->close();
                          self->filled_ += bytes;
                          self->count(bytes);
                          self->fill_body();
                        });
}

// Before the body is read. Returns false after having answered.
bool ServerSession::check_header() {
  header_is_checked_ = true;
  parser_->eager(true);
  head_ = request_head(*parser_);
  head_.credentials.certificate = certificate_;
  head_.credentials.address = address_;
  head_.lease = &lease_;
  request_id_ = head_.credentials.request_id;
  if (shared_.access_log != nullptr) head_.credentials.record = record_ = make_record(head_, address_);
  is_head_ = head_.method == "HEAD";
  keep_alive_ = parser_->keep_alive() && !seat_.is_spare;
  const bool has_body = !parser_->is_done();
  if (seat_.is_spare && (!is_health(head_.path) || has_body)) {
    end_with(refusal(503, "too many connections"));
    return false;
  }
  if (!has_body) return true;
  Admission admission = handler_.admit(head_);
  if (admission.refusal) {
    end_with(std::move(*admission.refusal));
    return false;
  }
  const auto most = static_cast<std::uint64_t>(std::min(admission.most_body_bytes, limits().body_bytes));
  const auto length = parser_->content_length();
  if (length && *length > most) {
    end_with(refusal(413, "the body is too large"));
    return false;
  }
  parser_->body_limit(most);
  if (!length || static_cast<std::int64_t>(*length) > kSmallBytes)
    lease_.begin_transfer([weak = weak_from_this()] { abandon(weak); });
  if (beast::iequals(parser_->fields()[http::field::expect], "100-continue")) send_continue();
  return true;
}

void ServerSession::send_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  transport().write({asio::buffer(kContinue)}, [self = self()](const ErrorCode&, std::size_t) {});
}

std::weak_ptr<HttpSession> start_http_session(std::unique_ptr<Transport> transport, HttpShared& shared,
                                              HttpHandler& handler, HttpSeat seat) {
  auto session = std::make_shared<ServerSession>(std::move(transport), shared, handler, std::move(seat));
  session->start();
  return session;
}

}  // namespace tessera::serve
