// A client that measures a server over HTTP: closed loops, or requests at a fixed rate whether or not answers come
// (open loop), whose latency counts from the moment at which they were due.
//
//   bench_serve_load HOST PORT PATH BODY_FILE [--json-bytes N] [--loops N | --rate PER_SECOND] [--seconds S]
//
// Prints one line of JSON: requests by status, requests a second, and the latency of those with status 200. Nothing of
// Tessera is linked.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string host, path, body;
  int port = 0, loops = 1;
  double rate = 0, seconds = 5;
  long json_bytes = -1;
};

// One connection; opened anew after an error.
class Connection {
 public:
  explicit Connection(const Options& options) : options_(options) {}
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The status of the answer; 0 without one.
  int ask(const std::string& request) {
    if (descriptor_ < 0 && !open()) return 0;
    if (!send_all(request)) return close(), 0;
    const int status = receive();
    if (status == 0 || closes_) close();
    return status;
  }

 private:
  bool open() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(options_.port));
    inet_pton(AF_INET, options_.host.c_str(), &address.sin_addr);
    descriptor_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return true;
    close();
    return false;
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  bool send_all(const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = ::send(descriptor_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return false;
      done += static_cast<std::size_t>(count);
    }
    return true;
  }
  int receive() {
    answer_.clear();
    std::size_t head = std::string::npos, length = 0;
    char block[65536];
    while (head == std::string::npos || answer_.size() < head + 4 + length) {
      const ssize_t count = ::recv(descriptor_, block, sizeof(block), 0);
      if (count <= 0) return 0;
      answer_.append(block, static_cast<std::size_t>(count));
      if (head != std::string::npos) continue;
      head = answer_.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const std::size_t at = answer_.find("Content-Length: ");
      length = at < head ? std::strtoul(answer_.c_str() + at + 16, nullptr, 10) : 0;
      closes_ = answer_.find("Connection: close") < head;
    }
    return std::atoi(answer_.c_str() + 9);
  }

  const Options& options_;
  int descriptor_ = -1;
  bool closes_ = false;
  std::string answer_;
};

struct Tally {
  std::mutex mutex;
  std::map<int, long> statuses;
  std::vector<double> latencies_us;
  void add(int status, double us) {
    const std::lock_guard lock(mutex);
    ++statuses[status];
    if (status == 200) latencies_us.push_back(us);
  }
};

std::string request_of(const Options& options) {
  std::string request = "POST " + options.path +
                        " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(options.body.size()) + "\r\n";
  if (options.json_bytes >= 0)
    request += "Inference-Header-Content-Length: " + std::to_string(options.json_bytes) + "\r\n";
  return request + "\r\n" + options.body;
}

void run(const Options& options, Tally& tally) {
  const std::string request = request_of(options);
  const auto start = Clock::now(),
             end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  std::atomic<long> next{0};
  const auto loop = [&] {
    Connection connection(options);
    while (true) {
      auto due = Clock::now();
      if (options.rate > 0) {
        due = start + std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(static_cast<double>(next.fetch_add(1)) / options.rate));
        std::this_thread::sleep_until(due);
      }
      if (due >= end) return;
      const int status = connection.ask(request);
      tally.add(status, std::chrono::duration<double, std::micro>(Clock::now() - due).count());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < options.loops; ++i) threads.emplace_back(loop);
  for (std::thread& thread : threads) thread.join();
}

double at(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: bench_serve_load HOST PORT PATH BODY_FILE [options]\n"), 2;
  Options options;
  options.host = argv[1];
  options.port = std::atoi(argv[2]);
  options.path = argv[3];
  std::ifstream file(argv[4], std::ios::binary);
  options.body.assign(std::istreambuf_iterator<char>(file), {});
  for (int i = 5; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--json-bytes") options.json_bytes = std::atol(argv[i + 1]);
    else if (name == "--loops") options.loops = std::atoi(argv[i + 1]);
    else if (name == "--rate") options.rate = std::atof(argv[i + 1]);
    else if (name == "--seconds") options.seconds = std::atof(argv[i + 1]);
    else return std::fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  // An open loop needs as many connections as requests may be in flight.
  if (options.rate > 0 && options.loops == 1) options.loops = 128;
  Tally tally;
  const auto start = Clock::now();
  run(options, tally);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::sort(tally.latencies_us.begin(), tally.latencies_us.end());
  std::printf("{\"statuses\":{");
  const char* comma = "";
  for (const auto& [status, count] : tally.statuses) std::printf("%s\"%d\":%ld", comma, status, count), comma = ",";
  std::printf("},\"per_second\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n",
              static_cast<double>(tally.latencies_us.size()) / seconds, at(tally.latencies_us, 0.5),
              at(tally.latencies_us, 0.99), at(tally.latencies_us, 1));
}
