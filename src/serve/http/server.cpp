#include "serve/http/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <charconv>
#include <list>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/short_slices.h"
#include "serve/core/log.h"
#include "serve/http/session.h"

namespace tessera::serve {
namespace asio = boost::asio;
using asio::ip::tcp;

struct HttpServer::State {
  // Its acceptor is used in its own strand alone: drain() closes it while clients come.
  struct Listener {
    Listener(asio::io_context& context, Handler given)
        : acceptor(asio::make_strand(context)), handler(std::move(given)), pause(acceptor.get_executor()) {}
    tcp::acceptor acceptor;
    Handler handler;
    std::unique_ptr<TlsContext> tls;
    asio::steady_timer pause;
  };

  State(const HttpLimits& limits, int thread_count, std::atomic<std::int64_t>& connections)
      : context(thread_count),
        shared{limits, BodyBudget(limits.all_bodies_bytes), connections},
        thread_count(thread_count) {}

  void accept(Listener& listener) {
    listener.acceptor.async_accept(
        asio::make_strand(context), [this, &listener](const ErrorCode& error, Socket socket) {
          if (!listener.acceptor.is_open()) return;
          if (error) {
            // No descriptors left, say: others end meanwhile.
            listener.pause.expires_after(std::chrono::milliseconds(50));
            listener.pause.async_wait([this, &listener](const ErrorCode&) { accept(listener); });
            return;
          }
          try {
            std::unique_ptr<Transport> transport = listener.tls ? make_tls_transport(std::move(socket), *listener.tls)
                                                                : make_plain_transport(std::move(socket));
            const std::lock_guard lock(mutex);
            std::erase_if(sessions, [](const auto& session) { return session.expired(); });
            sessions.push_back(start_http_session(std::move(transport), shared, listener.handler));
          } catch (...) {
            log_current_exception("a connection could not be served");
          }
          accept(listener);
        });
  }

  asio::io_context context;
  HttpShared shared;
  const int thread_count;
  std::list<Listener> listeners;
  std::atomic<std::size_t> listening{0};  // listeners that drain() has yet to close
  std::mutex mutex;
  std::list<std::weak_ptr<HttpSession>> sessions;
  std::vector<std::thread> threads;
};

HttpServer::HttpServer(const HttpLimits& limits, int threads, std::atomic<std::int64_t>& connections)
    : state_(std::make_unique<State>(limits, threads, connections)) {}

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

int HttpServer::listen(const std::string& address, Handler handler, const TlsFiles& tls) {
  const auto [host, port] = split_address(address);
  ErrorCode error;
  const auto parsed = asio::ip::make_address(host, error);
  require(!error, ErrorKind::invalid_argument, "'{}' is no IP address to listen on", host);
  State::Listener& listener = state_->listeners.emplace_back(state_->context, std::move(handler));
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
  for (State::Listener& listener : state_->listeners) state_->accept(listener);
  for (int i = 0; i < state_->thread_count; ++i) {
    state_->threads.emplace_back([this] {
      base::ask_for_short_slices();
      state_->context.run();
    });
  }
}

std::int64_t HttpServer::connections() const {
  return state_->shared.connections.load();
}

void HttpServer::drain(double seconds) {
  State& state = *state_;
  state.shared.draining = true;
  state.listening = state.listeners.size();
  for (State::Listener& listener : state.listeners) {
    asio::post(listener.acceptor.get_executor(), [&state, &listener] {
      ErrorCode ignored;
      listener.acceptor.close(ignored);
      --state.listening;
    });
  }
  {
    const std::lock_guard lock(state.mutex);
    for (const auto& weak : state.sessions) {
      if (const auto session = weak.lock()) session->drain();
    }
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  // A connection may be taken, and must be answered, until its listener is closed.
  while ((state.listening > 0 || connections() > 0) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  state.context.stop();
  for (std::thread& thread : state.threads) thread.join();
  state.threads.clear();
}

}  // namespace tessera::serve
