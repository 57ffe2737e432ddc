#include "serve/http/session.h"

#include <sys/socket.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <charconv>
#include <optional>

#include "serve/core/log.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::int64_t kMostDiscardedBytes = 4 << 20;
constexpr std::chrono::seconds kTick{1};

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

HttpResponse refusal(int status, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body = "{\"error\":" + json_text(message) + "}";
  return response;
}

// The status of what the parser did not accept.
HttpResponse refusal_of(const ErrorCode& error) {
  if (error == http::error::header_limit) return refusal(431, "the header is too large");
  if (error == http::error::body_limit) return refusal(413, "the body is too large");
  if (error == http::error::buffer_overflow) return refusal(431, "the header is too large");
  return refusal(400, "the request is malformed");
}

class Session final : public HttpSession, public std::enable_shared_from_this<Session> {
 public:
  using Clock = std::chrono::steady_clock;

  Session(std::unique_ptr<Transport> transport, HttpShared& shared, const Handler& handler)
      : transport_(std::move(transport)),
        shared_(shared),
        handler_(handler),
        timer_(transport_->socket().get_executor()) {
    accepted_ = shared_.connections.fetch_add(1) < shared_.limits.connections;
    ErrorCode error;
    const auto peer = transport_->socket().remote_endpoint(error);
    if (!error) address_ = peer.address().to_string();
  }
  ~Session() override {
    release_body();
    shared_.connections.fetch_sub(1);
  }

  void start() {
    asio::dispatch(transport_->socket().get_executor(), [self = shared_from_this()] { self->begin(); });
  }

  void drain() override {
    asio::post(transport_->socket().get_executor(), [self = shared_from_this()] {
      if (self->is_idle_) self->close();
    });
  }

 private:
  // --- time ---

  // Setting a timer costs a system call and wakes another thread, and a request sets the time several times: the timer
  // ticks and compares.
  void expire_after(double seconds) {
    expiry_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    if (expiry_ < next_tick_) set_tick();
  }

  void set_tick() {
    next_tick_ = std::min(expiry_, Clock::now() + kTick);
    timer_.expires_at(next_tick_);
    timer_.async_wait([weak = weak_from_this()](const ErrorCode& error) {
      if (error) return;
      if (const auto self = weak.lock()) self->tick();
    });
  }

  void tick() {
    if (Clock::now() < next_tick_) return;  // it was set anew meanwhile
    if (Clock::now() >= expiry_) return close();
    set_tick();
  }

  void close() {
    ErrorCode ignored;
    expiry_ = Clock::time_point::max();
    transport_->socket().close(ignored);
    timer_.cancel();
    if (call_) call_->cancellation.cancel();
  }

  // --- reading ---

  void begin() {
    ErrorCode ignored;
    transport_->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    expire_after(shared_.limits.header_seconds);
    transport_->handshake([self = shared_from_this()](const ErrorCode& error, std::size_t) {
      if (error) return self->close();
      self->certificate_ = self->transport_->certificate_name();
      if (!self->accepted_) return self->end_with(refusal(503, "too many connections"));
      self->next_request();
    });
  }

  void next_request() {
    if (shared_.draining) return close();
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.limits.header_bytes));
    parser_->body_limit(static_cast<std::uint64_t>(shared_.limits.body_bytes));
    is_idle_ = in_.size() == 0;
    began_ = Clock::now();
    received_ = 0;
    filled_ = 0;
    body_ = {};
    if (is_idle_) {
      expire_after(shared_.limits.idle_seconds);
      read_more();
    } else {
      expire_after(shared_.limits.header_seconds);
      parse();
    }
  }

  void read_more() {
    transport_->read_some(in_.prepare(kReadBytes),
                          [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                            if (error) return self->close();
                            self->in_.commit(bytes);
                            if (self->is_idle_) {
                              self->is_idle_ = false;
                              self->began_ = Clock::now();
                              self->expire_after(self->shared_.limits.header_seconds);
                            }
                            self->received_ += static_cast<std::int64_t>(bytes);
                            self->parse();
                          });
  }

  // A header must be there in a fixed time; a body must come at the least rate.
  bool is_too_slow() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    if (!parser_->is_header_done()) return seconds > shared_.limits.header_seconds;
    return seconds > shared_.limits.stall_seconds + static_cast<double>(received_) / shared_.limits.bytes_per_second;
  }

  void parse() {
    ErrorCode error;
    while (!parser_->is_done() && in_.size() > 0) {
      const std::size_t used = parser_->put(in_.data(), error);
      in_.consume(used);
      if (error == http::error::need_more) {
        error = {};
        break;
      }
      if (error) return end_with(refusal_of(error));
      if (parser_->is_header_done() && !header_is_checked_) {
        if (!check_header()) return;
        if (parser_->content_length() && !parser_->is_done()) return read_body();
      }
      if (!claim_body()) return end_with(retry(refusal(503, "the server holds too many bodies")));
    }
    if (parser_->is_done()) return handle();
    if (is_too_slow()) return end_with(refusal(408, "the request came too slowly"));
    if (parser_->is_header_done()) expire_after(shared_.limits.stall_seconds);
    read_more();
  }

  // A body whose length is known is read into the memory where its tensors will lie.
  void read_body() {
    const std::string_view json = view(parser_->get()["Inference-Header-Content-Length"]);
    std::size_t json_bytes = 0;
    std::from_chars(json.data(), json.data() + json.size(), json_bytes);
    try {
      body_ = BodyBuffer(static_cast<std::size_t>(*parser_->content_length()), json_bytes);
    } catch (const std::bad_alloc&) {
      return end_with(retry(refusal(503, "the server is short of memory")));
    }
    filled_ = asio::buffer_copy(asio::buffer(body_.data(), body_.size()), in_.data());
    in_.consume(filled_);
    fill_body();
  }

  void fill_body() {
    if (filled_ == body_.size()) return handle();
    if (is_too_slow()) return end_with(refusal(408, "the request came too slowly"));
    expire_after(shared_.limits.stall_seconds);
    transport_->read_some(asio::buffer(body_.data() + filled_, body_.size() - filled_),
                          [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                            if (error) return self->close();
                            self->filled_ += bytes;
                            self->received_ += static_cast<std::int64_t>(bytes);
                            self->fill_body();
                          });
  }

  // Before the body is read. Returns false after having answered.
  bool check_header() {
    header_is_checked_ = true;
    const auto& header = parser_->get();
    parser_->eager(true);
    if (header.count(http::field::transfer_encoding) > 0 && header.count(http::field::content_length) > 0) {
      end_with(refusal(400, "a request cannot have both Content-Length and Transfer-Encoding"));
      return false;
    }
    const auto length = parser_->content_length();
    if (length && *length > static_cast<std::uint64_t>(shared_.limits.body_bytes)) {
      end_with(refusal(413, "the body is too large"));
      return false;
    }
    if (length && !claim_bytes(static_cast<std::int64_t>(*length))) {
      end_with(retry(refusal(503, "the server holds too many bodies")));
      return false;
    }
    if (beast::iequals(header[http::field::expect], "100-continue") && !parser_->is_done()) send_continue();
    return true;
  }

  void send_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    transport_->write({asio::buffer(kContinue)}, [self = shared_from_this()](const ErrorCode&, std::size_t) {});
  }

  bool claim_bytes(std::int64_t bytes) {
    if (bytes <= claimed_) return true;
    if (!shared_.bodies.take(bytes - claimed_)) return false;
    claimed_ = bytes;
    return true;
  }
  // Of a chunked body, whose length is known when it has come.
  bool claim_body() { return claim_bytes(static_cast<std::int64_t>(parser_->get().body().size())); }

  void release_body() { shared_.bodies.give_back(std::exchange(claimed_, 0)); }

  // --- answering ---

  void handle() {
    expiry_ = Clock::time_point::max();
    auto& message = parser_->get();
    keep_alive_ = message.keep_alive();
    const auto text = [&](auto field) { return std::string(view(message[field])); };
    HttpRequest request;
    request.method = std::string(view(message.method_string()));
    is_head_ = request.method == "HEAD";
    const std::string_view target = view(message.target());
    const std::size_t query = std::min(target.find('?'), target.size());
    request.path = target.substr(0, query);
    request.query = target.substr(std::min(query + 1, target.size()));
    request.content_encoding = text(http::field::content_encoding);
    request.accept_encoding = text(http::field::accept_encoding);
    request.accept = text(http::field::accept);
    request.json_bytes = text("Inference-Header-Content-Length");
    request.credentials = {text(http::field::authorization), certificate_, address_, text("traceparent"),
                           text("tracestate")};
    request.body = body_.size() > 0 ? std::move(body_).body() : body_of(std::move(message.body()));
    waits_ = true;
    std::shared_ptr<Call> call = handler_(std::move(request), [self = shared_from_this()](HttpResponse response) {
      asio::dispatch(self->transport_->socket().get_executor(),
                     [self, response = std::move(response)]() mutable { self->answer(std::move(response)); });
    });
    if (!waits_) return;  // it has been answered by this thread
    call_ = std::move(call);
    watch();
  }

  // While the request is computed, the client may go. A wait that an earlier request began may still be pending.
  void watch() {
    if (std::exchange(watches_, true)) return;
    transport_->socket().async_wait(Socket::wait_read, [weak = weak_from_this()](const ErrorCode& error) {
      const auto self = weak.lock();
      if (!self) return;
      self->watches_ = false;
      if (error || !self->waits_) return;
      char byte = 0;
      const ssize_t found = ::recv(self->transport_->socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (found > 0) return;  // the next request has begun to come
      if (found < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return self->watch();  // what woke it has been read
      if (self->call_) self->call_->cancellation.cancel();
    });
  }

  void answer(HttpResponse response) {
    waits_ = false;
    call_.reset();
    release_body();
    if (!transport_->socket().is_open()) return;
    if (shared_.draining) keep_alive_ = false;
    send(std::move(response), [self = shared_from_this()] {
      if (!self->keep_alive_) return self->close_gently();
      self->header_is_checked_ = false;
      self->next_request();
    });
  }

  static HttpResponse retry(HttpResponse response) {
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }

  void end_with(HttpResponse response) {
    body_ = {};
    release_body();
    keep_alive_ = false;
    send(std::move(response), [self = shared_from_this()] { self->close_gently(); });
  }

  void send(HttpResponse response, std::function<void()> then) {
    out_body_ = std::move(response.body);
    out_header_ = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", response.status,
                              view(http::obsolete_reason(static_cast<http::status>(response.status))),
                              response.content_type, out_body_.size());
    for (const auto& [name, value] : response.headers) out_header_ += fmt::format("{}: {}\r\n", name, value);
    out_header_ += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
    std::vector<asio::const_buffer> buffers{asio::buffer(out_header_)};
    if (!is_head_) buffers.push_back(asio::buffer(out_body_));
    expire_after(shared_.limits.stall_seconds +
                 static_cast<double>(out_body_.size()) / shared_.limits.bytes_per_second);
    transport_->write(std::move(buffers),
                      [self = shared_from_this(), then = std::move(then)](const ErrorCode& error, std::size_t) {
                        if (error) return self->close();
                        self->out_body_ = {};
                        then();
                      });
  }

  // A client that still sends must not lose the answer to a reset: what it sends is read for a moment.
  void close_gently() {
    ErrorCode error;
    transport_->socket().shutdown(Socket::shutdown_send, error);
    if (error) return close();
    expire_after(1);
    in_.consume(in_.size());
    discarded_ = 0;
    discard();
  }

  void discard() {
    transport_->socket().async_read_some(in_.prepare(kReadBytes),
                                         [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                                           self->discarded_ += static_cast<std::int64_t>(bytes);
                                           if (error || self->discarded_ > kMostDiscardedBytes) return self->close();
                                           self->discard();
                                         });
  }

  std::unique_ptr<Transport> transport_;
  HttpShared& shared_;
  const Handler& handler_;
  asio::steady_timer timer_;
  beast::flat_buffer in_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<Call> call_;
  std::string address_, certificate_, out_header_, out_body_;
  BodyBuffer body_;
  std::size_t filled_ = 0;  // bytes of the body that have come
  Clock::time_point began_, expiry_ = Clock::time_point::max(), next_tick_ = Clock::time_point::max();
  std::int64_t received_ = 0, claimed_ = 0, discarded_ = 0;
  bool accepted_ = true, is_idle_ = false, header_is_checked_ = false, keep_alive_ = true, is_head_ = false;
  bool waits_ = false, watches_ = false;
};

}  // namespace

std::weak_ptr<HttpSession> start_http_session(std::unique_ptr<Transport> transport, HttpShared& shared,
                                              const Handler& handler) {
  auto session = std::make_shared<Session>(std::move(transport), shared, handler);
  session->start();
  return session;
}

}  // namespace tessera::serve
