// The least that a server over HTTP can take: no event loop, no JSON, no queue, but one thread a connection that blocks
// in recv.
//
//   bench_serve_replay PORT OTHER_PORT COMPUTE_US
//
// Requests for inference are answered with the first answer that the server at OTHER_PORT gave, after a spin of
// COMPUTE_US microseconds in place of a model. All else, and each hundredth of those requests, goes on to that server,
// as perf_analyzer wants to see its statistics grow. Ends when it is killed; serves loopback alone, and trusts its
// client.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

[[noreturn]] void stop(const char* what) {
  std::perror(what);
  std::exit(1);
}

// Messages of HTTP with a Content-Length, one behind the other.
class Stream {
 public:
  explicit Stream(int socket) : socket_(socket) {
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }

  // The next message; empty at the end of the connection.
  std::string receive() {
    while (true) {
      const std::size_t head = read_.find("\r\n\r\n");
      const std::size_t size = head == std::string::npos ? head : head + 4 + body_bytes(head);
      if (read_.size() >= size) {
        std::string message = read_.substr(0, size);
        read_.erase(0, size);
        return message;
      }
      char block[65536];
      const ssize_t count = ::recv(socket_, block, sizeof(block), 0);
      if (count <= 0) return {};
      read_.append(block, static_cast<std::size_t>(count));
    }
  }
  void send(std::string_view message) {
    while (!message.empty()) {
      const ssize_t count = ::send(socket_, message.data(), message.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      message.remove_prefix(static_cast<std::size_t>(count));
    }
  }

 private:
  // A name that only ends in Content-Length, as Triton's Inference-Header-Content-Length does, stands elsewhere.
  std::size_t body_bytes(std::size_t head) const {
    for (std::size_t line = read_.find('\n'); line < head; line = read_.find('\n', line + 1)) {
      constexpr std::string_view kName = "content-length:";
      if (strncasecmp(read_.c_str() + line + 1, kName.data(), kName.size()) == 0)
        return std::strtoul(read_.c_str() + line + 1 + kName.size(), nullptr, 10);
    }
    return 0;
  }

  int socket_;
  std::string read_;
};

std::mutex mutex;
std::string recorded;  // the answer to requests for inference

void serve(int socket, int other_port, std::chrono::microseconds compute) {
  Stream client(socket);
  const int there = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(other_port);
  if (::connect(there, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) stop("replay: connect");
  Stream other(there);
  for (long number = 1;; ++number) {
    const std::string request = client.receive();
    if (request.empty()) return;
    const bool infers = request.starts_with("POST ") && request.find("/infer ") < request.find('\n');
    std::string answer;
    if (infers && number % 100 != 0) {
      const std::lock_guard lock(mutex);
      answer = recorded;
    }
    if (answer.empty()) {
      other.send(request);
      answer = other.receive();
      const std::lock_guard lock(mutex);
      if (infers) recorded = answer;
    } else {
      const auto end = std::chrono::steady_clock::now() + compute;
      while (std::chrono::steady_clock::now() < end) __builtin_ia32_pause();
    }
    client.send(answer);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: bench_serve_replay PORT OTHER_PORT COMPUTE_US\n"), 2;
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = loopback(std::atoi(argv[1]));
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) stop("replay: bind");
  if (::listen(listener, 16) != 0) stop("replay: listen");
  while (true) {
    const int socket = ::accept(listener, nullptr, nullptr);
    if (socket < 0) stop("replay: accept");
    std::thread(serve, socket, std::atoi(argv[2]), std::chrono::microseconds(std::atol(argv[3]))).detach();
  }
}
