// The connection of one client of the HTTP server: reads requests (session.cpp) and answers them (session_answers.cpp).
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/answers.h"
#include "serve/http/connection.h"
#include "serve/http/request_parser.h"
#include "serve/http/session.h"

namespace tessera::serve {

class ServerSession final : public HttpSession, public Connection {
 public:
  ServerSession(std::unique_ptr<Transport> transport, HttpShared& shared, HttpHandler& handler, HttpSeat seat);

  void start();
  void close_if_idle() override;
  Clock::time_point idle_since() const override { return Clock::time_point(Clock::duration(idle_since_.load())); }

 private:
  static constexpr std::int64_t kSmallBytes = 64 << 10;  // a transfer of fewer bytes is not worth abandoning

  std::shared_ptr<ServerSession> self() { return std::static_pointer_cast<ServerSession>(shared_from_this()); }

  void on_close() override;
  void on_sent(std::int64_t bytes) override { lease_.moved(bytes); }

  void set_idle(bool is_idle);

  // --- reading ---

  void begin();
  void next_request();
  void read_more();
  void count(std::size_t bytes);
  bool is_too_slow() const;
  void parse();
  void parse_received();
  void read_body();
  void fill_body();
  bool check_header();
  void send_continue();

  // --- the budget ---

  bool claim(std::int64_t bytes) { return bytes <= lease_.held() || lease_.take(bytes - lease_.held()); }

  void wait_for_bytes(std::function<void()> again);
  static void abandon(const std::weak_ptr<Connection>& weak);
  void release_body();

  // --- answering ---

  void handle();
  void watch();
  void answer(HttpResponse response);
  void end_with(HttpResponse response);
  void send_when_left(const std::shared_ptr<HttpResponse>& response);
  void send_now(HttpResponse response);

  // --- an answer that is made while it is sent ---

  void begin_stream(HttpResponse response);
  void send_next_piece();
  void wait_for_stream_bytes();
  void send_stream(std::string header, std::string body);
  void end_stream();
  void log_answer(int status, std::size_t bytes);

  HttpShared& shared_;
  HttpHandler& handler_;
  HttpSeat seat_;
  BodyBudget::Lease lease_;
  boost::asio::steady_timer pause_;
  std::optional<RequestParser> parser_{std::in_place, std::size_t{0}};
  std::shared_ptr<Call> call_;
  std::shared_ptr<ReplyStream> stream_;        // null: the answer is no stream
  std::optional<ReplyStream::Piece> piece_;    // of the stream, for which the budget has too few bytes
  Framing framing_ = Framing::content_length;  // of the stream, like the members below
  int stream_status_ = 0;
  std::size_t stream_bytes_ = 0;
  bool is_last_piece_ = false;
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

}  // namespace tessera::serve
