#include "serve/http/session.h"

#include <sys/socket.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>

#include "serve/core/operations/log.h"
#include "serve/http/answers.h"
#include "serve/http/connection.h"
#include "serve/http/request_parser.h"
#include "serve/observe/request_id.h"

namespace tessera::serve {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace {

constexpr std::size_t kReadBytes = 64 << 10, kIdleReadBytes = 4 << 10;
constexpr std::size_t kKeptBufferBytes = 128 << 10;               // of a connection between two requests
constexpr std::int64_t kSmallBytes = 64 << 10;                    // a transfer of fewer bytes is not worth abandoning
constexpr std::chrono::milliseconds kRetry{10}, kMostWait{2000};  // while the budget has too few bytes

class Session final : public HttpSession, public Connection {
 public:
  Session(std::unique_ptr<Transport> transport, HttpShared& shared, HttpHandler& handler, HttpSeat seat)
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

  void start() {
    asio::dispatch(executor(), [self = self()] { self->begin(); });
  }

  void close_if_idle() override {
    idle_since_ = Clock::time_point::max().time_since_epoch().count();  // it is not asked a second time
    asio::post(executor(), [self = self()] {
      if (self->is_idle_) self->close();
    });
  }
  Clock::time_point idle_since() const override { return Clock::time_point(Clock::duration(idle_since_.load())); }

 private:
  std::shared_ptr<Session> self() { return std::static_pointer_cast<Session>(shared_from_this()); }

  void on_close() override {
    if (call_) call_->cancellation.cancel();
  }
  void on_sent(std::int64_t bytes) override { lease_.moved(bytes); }

  void set_idle(bool is_idle) {
    is_idle_ = is_idle;
    idle_since_ = (is_idle ? Clock::now() : Clock::time_point::max()).time_since_epoch().count();
  }

  // --- reading ---

  void begin() {
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

  void next_request() {
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

  void read_more() {
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

  void count(std::size_t bytes) {
    received_ += static_cast<std::int64_t>(bytes);
    lease_.moved(static_cast<std::int64_t>(bytes));
  }

  // A header must be there in a fixed time; a body must come at the least rate, and within a fixed time too.
  bool is_too_slow() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    if (!parser_->is_header_done()) return seconds > limits().header_seconds;
    return seconds > std::min(limits().stall_seconds + static_cast<double>(received_) / limits().bytes_per_second,
                              limits().transfer_seconds);
  }

  void parse() {
    try {
      parse_received();
    } catch (const std::bad_alloc&) {
      end_with(out_of_budget());
    } catch (...) {
      log_current_exception("a request could not be read");
      end_with(refusal(500, "the request could not be read"));
    }
  }

  void parse_received() {
    ErrorCode error;
    while (true) {
      if (!claim(static_cast<std::int64_t>(parser_->body().size()))) return wait_for_bytes([this] { parse(); });
      if (parser_->is_done() || in_.size() == 0) break;
      const std::size_t used = parser_->put(in_.data(), error);
      in_.consume(used);
      if (error == http::error::need_more) {
        error = {};
        // What is left is a line or a trailer section whose end has not come.
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
  void read_body() {
    std::size_t json_bytes = 0;
    std::from_chars(head_.json_bytes.data(), head_.json_bytes.data() + head_.json_bytes.size(), json_bytes);
    body_ = BodyBuffer(static_cast<std::size_t>(*parser_->content_length()), json_bytes);
    filled_ = asio::buffer_copy(asio::buffer(body_.data(), body_.size()), in_.data());
    in_.consume(filled_);
    fill_body();
  }

  void fill_body() {
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
  bool check_header() {
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

  void send_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    transport().write({asio::buffer(kContinue)}, [self = self()](const ErrorCode&, std::size_t) {});
  }

  // --- the budget ---

  bool claim(std::int64_t bytes) { return bytes <= lease_.held() || lease_.take(bytes - lease_.held()); }

  // Another connection is asked to give up what it holds; `again` is called a little later.
  void wait_for_bytes(std::function<void()> again) {
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
  static void abandon(const std::weak_ptr<Connection>& weak) {
    const auto self = std::static_pointer_cast<Session>(weak.lock());
    if (!self) return;
    asio::post(self->executor(), [self] {
      if (self->waits_ || self->is_idle_) return;  // the transfer has ended meanwhile
      if (self->is_sending_) return self->close();
      ErrorCode ignored;
      self->is_abandoned_ = true;
      self->transport().socket().cancel(ignored);
    });
  }

  void release_body() {
    lease_.end_transfer();
    lease_.release();
    waits_for_bytes_since_ = {};
    is_abandoned_ = false;
  }

  // --- answering ---

  void handle() {
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
  void watch() {
    if (std::exchange(watches_, true)) return;
    transport().socket().async_wait(Socket::wait_read, [weak = weak_from_this()](const ErrorCode& error) {
      const auto self = std::static_pointer_cast<Session>(weak.lock());
      if (!self) return;
      self->watches_ = false;
      if (error || !self->waits_) return;
      char byte = 0;
      const ssize_t found = ::recv(self->transport().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (found > 0) return;  // the next request has begun to come
      if (found < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return self->watch();  // what woke it has been read
      if (self->call_) self->call_->cancellation.cancel();
    });
  }

  void answer(HttpResponse response) {
    waits_ = false;
    call_.reset();
    release_body();
    if (!transport().socket().is_open()) return;
    if (shared_.leaving || shared_.draining) keep_alive_ = false;
    send_when_left(std::make_shared<HttpResponse>(std::move(response)));
  }

  void end_with(HttpResponse response) {
    if (!transport().socket().is_open()) return;
    body_ = {};
    parser_->body() = {};
    release_body();
    keep_alive_ = false;
    send_now(std::move(response));
  }

  // A large answer waits until the budget holds it.
  void send_when_left(const std::shared_ptr<HttpResponse>& response) {
    const auto bytes = static_cast<std::int64_t>(response->body.size());
    if (bytes > shared_.bodies.limit())
      return end_with(refusal(503, "the answer is larger than the server's budget for bodies"));
    if (!claim(bytes)) return wait_for_bytes([this, response] { send_when_left(response); });
    if (bytes > kSmallBytes) lease_.begin_transfer([weak = weak_from_this()] { abandon(weak); });
    send_now(std::move(*response));
  }

  void send_now(HttpResponse response) {
    if (request_id_.empty()) request_id_ = request_id("");
    std::string header = response_header(response, keep_alive_, request_id_);
    log_answer(response);
    is_sending_ = true;
    send(std::move(header), std::move(response.body), is_head_, [self = self()] {
      self->is_sending_ = false;
      self->release_body();
      if (!self->keep_alive_) return self->close_gently();
      self->next_request();
    });
  }

  void log_answer(const HttpResponse& response) {
    if (shared_.access_log == nullptr) return;
    if (!record_) record_ = make_record(head_, address_);  // the header could not be read
    record_->id = request_id_;
    const auto lasted = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_);
    end_record(*record_, response.status, received_, is_head_ ? 0 : response.body.size(), lasted.count());
    shared_.access_log->add(*record_);
  }

  HttpShared& shared_;
  HttpHandler& handler_;
  HttpSeat seat_;
  BodyBudget::Lease lease_;
  asio::steady_timer pause_;
  std::optional<RequestParser> parser_{std::in_place, std::size_t{0}};
  std::shared_ptr<Call> call_;
  std::string address_, certificate_, request_id_;
  std::shared_ptr<AccessRecord> record_;  // null: the header has not come, or nothing is logged
  HttpRequest head_;
  BodyBuffer body_;
  std::size_t filled_ = 0;  // bytes of the body that have come
  Clock::time_point began_, waits_for_bytes_since_;
  std::atomic<Clock::rep> idle_since_{0};
  std::int64_t received_ = 0;
  bool is_idle_ = false, header_is_checked_ = false, keep_alive_ = true, is_head_ = false;
  bool waits_ = false, watches_ = false, is_sending_ = false, is_abandoned_ = false;
};

}  // namespace

std::weak_ptr<HttpSession> start_http_session(std::unique_ptr<Transport> transport, HttpShared& shared,
                                              HttpHandler& handler, HttpSeat seat) {
  auto session = std::make_shared<Session>(std::move(transport), shared, handler, std::move(seat));
  session->start();
  return session;
}

}  // namespace tessera::serve
