#include "serve/http/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <charconv>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/threads/short_slices.h"
#include "serve/core/operations/log.h"
#include "serve/http/session.h"

namespace tessera::serve {
namespace asio = boost::asio;
using asio::ip::tcp;
namespace {

constexpr std::int64_t kSparePlaces = 64;  // for questions about the server's health, when all others are taken

}  // namespace

struct HttpServer::State {
  // Its acceptor is used in its own strand alone: drain() closes it while clients come.
  struct Listener {
    Listener(asio::io_context& context, HttpHandler& handler)
        : acceptor(asio::make_strand(context)), handler(handler), pause(acceptor.get_executor()) {}
    tcp::acceptor acceptor;
    HttpHandler& handler;
    std::unique_ptr<TlsContext> tls;
    asio::steady_timer pause;
    struct Places {
      std::atomic<std::int64_t> taken{0}, spare{0};
      std::mutex mutex;
      std::map<std::string, std::int64_t> of_peer;  // by IP address
    };
    const std::shared_ptr<Places> places = std::make_shared<Places>();  // connections may outlive the listener
  };
  struct Known {
    std::weak_ptr<HttpSession> session;
    const Listener* listener;
    std::string peer;
  };

  State(const HttpLimits& limits, int thread_count, std::atomic<std::int64_t>& connections, BodyBudget& bodies,
        AccessLog* access_log)
      : shared{limits, bodies, access_log}, open(connections), context(thread_count), thread_count(thread_count) {}

  // With the mutex held. Closes the connection that has been idle the longest, of the peer alone if one is named.
  bool close_longest_idle(const Listener& listener, const std::string* peer) {
    std::shared_ptr<HttpSession> longest;
    auto since = std::chrono::steady_clock::time_point::max();
    for (const Known& known : sessions) {
      if (known.listener != &listener || (peer != nullptr && known.peer != *peer)) continue;
      const auto session = known.session.lock();
      if (session && session->idle_since() < since) longest = session, since = session->idle_since();
    }
    if (longest) longest->close_if_idle();
    return longest != nullptr;
  }

  // With the mutex held.
  HttpSeat take_seat(Listener& listener, const std::string& peer) {
    HttpSeat seat;
    const std::int64_t of_peer = [&] {
      const std::lock_guard lock(listener.places->mutex);
      return ++listener.places->of_peer[peer];
    }();
    const bool peer_is_full = of_peer > shared.limits.connections_per_peer;
    const bool is_full = ++listener.places->taken > shared.limits.connections;
    ++open;
    if ((peer_is_full || is_full) && !close_longest_idle(listener, peer_is_full ? &peer : nullptr)) {
      seat.is_spare = true;
      seat.is_refused = ++listener.places->spare > kSparePlaces;
    }
    seat.place =
        std::shared_ptr<void>(nullptr, [this, places = listener.places, peer, is_spare = seat.is_spare](void*) {
          {
            const std::lock_guard lock(places->mutex);
            const auto found = places->of_peer.find(peer);
            if (--found->second == 0) places->of_peer.erase(found);
          }
          --places->taken;
          if (is_spare) --places->spare;
          --open;
        });
    return seat;
  }

  void accept(Listener& listener) {
    listener.acceptor.async_accept(
        asio::make_strand(context), [this, &listener](const ErrorCode& error, Socket socket) {
          if (!listener.acceptor.is_open()) {
            --listening;
            return;  // which closes a connection that came with the end
          }
          if (error) {
            // No descriptors left, say: others end meanwhile.
            listener.pause.expires_after(std::chrono::milliseconds(50));
            listener.pause.async_wait([this, &listener](const ErrorCode&) { accept(listener); });
            return;
          }
          try {
            ErrorCode unknown;
            const std::string peer = socket.remote_endpoint(unknown).address().to_string();
            std::unique_ptr<Transport> transport = listener.tls ? make_tls_transport(std::move(socket), *listener.tls)
                                                                : make_plain_transport(std::move(socket));
            const std::lock_guard lock(mutex);
            std::erase_if(sessions, [](const Known& known) { return known.session.expired(); });
            HttpSeat seat = take_seat(listener, peer);
            sessions.push_back(
                {start_http_session(std::move(transport), shared, listener.handler, std::move(seat)), &listener, peer});
          } catch (...) {
            log_current_exception("a connection could not be served");
          }
          accept(listener);
        });
  }

  // What connections use at their end stands before the context, which owns them.
  HttpShared shared;
  std::atomic<std::int64_t>& open;  // connections
  asio::io_context context;
  // Threads stay when nothing is left to wait for: what drain() posts then must still run.
  const asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(context);
  const int thread_count;
  std::list<Listener> listeners;
  std::atomic<std::size_t> listening{0};  // listeners that accept, until they have seen that they are closed
  std::mutex mutex;
  std::list<Known> sessions;
  std::vector<std::thread> threads;
};

HttpServer::HttpServer(const HttpLimits& limits, int threads, std::atomic<std::int64_t>& connections,
                       BodyBudget& bodies, AccessLog* access_log)
    : state_(std::make_unique<State>(limits, threads, connections, bodies, access_log)) {}

HttpServer::~HttpServer() {
  state_->context.stop();
  for (std::thread& thread : state_->threads) {
    if (thread.joinable()) thread.join();
  }
}

std::pair<std::string, int> split_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  int port = -1;
  if (colon != std::string::npos) {
    const auto [end, error] = std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
    if (error != std::errc() || end != address.data() + address.size()) port = -1;
  }
  require(port >= 0 && port <= 65535 && colon > 0, ErrorKind::invalid_argument,
          "'{}' is no address to listen on, expected HOST:PORT such as 127.0.0.1:8000", address);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  return {host, port};
}

bool is_loopback(const std::string& address) {
  ErrorCode error;
  const auto parsed = asio::ip::make_address(split_address(address).first, error);
  return !error && parsed.is_loopback();
}

int HttpServer::listen(const std::string& address, HttpHandler& handler, const TlsFiles& tls) {
  const auto [host, port] = split_address(address);
  ErrorCode error;
  const auto parsed = asio::ip::make_address(host, error);
  require(!error, ErrorKind::invalid_argument, "'{}' is no IP address to listen on", host);
  State::Listener& listener = state_->listeners.emplace_back(state_->context, handler);
  if (tls.is_on()) listener.tls = std::make_unique<TlsContext>(tls);
  const tcp::endpoint endpoint(parsed, static_cast<unsigned short>(port));
  const auto check = [&] { require(!error, ErrorKind::io, "cannot listen on {}: {}", address, error.message()); };
  listener.acceptor.open(endpoint.protocol(), error);
  check();
  listener.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  listener.acceptor.bind(endpoint, error);
  check();
  listener.acceptor.listen(asio::socket_base::max_listen_connections, error);
  check();
  return listener.acceptor.local_endpoint().port();
}

void HttpServer::start() {
  for (State::Listener& listener : state_->listeners) {
    ++state_->listening;
    state_->accept(listener);
  }
  for (int i = 0; i < state_->thread_count; ++i) {
    state_->threads.emplace_back([this] {
      base::ask_for_short_slices();
      state_->context.run();
    });
  }
}

std::int64_t HttpServer::connections() const {
  return state_->open.load();
}

void HttpServer::begin_leaving() {
  state_->shared.leaving = true;
}

void HttpServer::drain(double seconds) {
  State& state = *state_;
  state.shared.draining = true;
  for (State::Listener& listener : state.listeners) {
    asio::post(listener.acceptor.get_executor(), [&listener] {
      ErrorCode ignored;
      listener.acceptor.close(ignored);
      listener.pause.cancel();
    });
  }
  {
    const std::lock_guard lock(state.mutex);
    for (const State::Known& known : state.sessions) {
      if (const auto session = known.session.lock()) session->close_if_idle();
    }
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  // A connection may be taken, and must be answered or closed, until its listener has seen that it is closed: one that
  // waited in the stopped context would keep its client waiting for as long as the server lives.
  while ((state.listening > 0 || connections() > 0) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  state.context.stop();
  for (std::thread& thread : state.threads) thread.join();
  state.threads.clear();
}

}  // namespace tessera::serve
