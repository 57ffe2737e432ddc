#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <thread>
#include <vector>

#include "serve/http/server.h"
#include "support/sanitized.h"

namespace tessera::serve::http_server_test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// An address of its own: other tests that run meanwhile may be given a port that this server has left.
constexpr const char* kAddress = "127.0.77.1";

// The status of the answer to a request on a connection of its own, 0 where the server takes none.
int ask(int port) {
  asio::io_context context;
  tcp::socket socket(context);
  boost::system::error_code error;
  socket.connect({asio::ip::make_address(kAddress), static_cast<unsigned short>(port)}, error);
  asio::write(socket, asio::buffer(std::string("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), error);
  if (error) return 0;
  asio::streambuf answer;
  asio::read(socket, answer, error);
  std::string version;
  int status = 0;
  std::istream(&answer) >> version >> status;
  return status;
}

class Agreeing final : public HttpHandler {
 public:
  Admission admit(const HttpRequest&) override { return {std::nullopt, 1 << 20}; }
  std::shared_ptr<Call> handle(HttpRequest, Reply reply) override {
    reply(HttpResponse());
    return nullptr;
  }
};

// The thread sanitizer watches the acceptor, which is closed while other threads accept.
TEST(HttpServer, DrainsWhileClientsCome) {
  std::atomic<std::int64_t> connections = 0;
  Agreeing handler;
  BodyBudget bodies(1 << 20);
  HttpServer server(HttpLimits(), 4, connections, bodies);
  const int port = server.listen(std::string(kAddress) + ":0", handler);
  server.start();
  std::atomic<int> answered = 0, wrong = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!is_over) {
        const int status = ask(port);
        if (status == 200) ++answered;
        else if (status != 0) ++wrong;
      }
    });
  }
  while (answered < 50) std::this_thread::yield();
  server.drain(5 * test::kPatience);
  is_over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(connections, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ask(port), 0);
}

}  // namespace
}  // namespace tessera::serve::http_server_test
