// A client that measures a server over HTTP: closed loops, or requests that come whether or not those before were
// answered, whose latency counts from the moment at which they were due (bench/share/load.h).
//
//   bench_serve_load HOST PORT PATH BODY_FILE [--json-bytes N] [--loops N] [--rate PER_SECOND] [--seconds S] [-- LOAD…]
//
// LOAD is one of load.h, as `-- poisson 1000 50`; without it, closed loops or, with --rate, requests at equal
// distances, for --seconds. Prints one line of JSON: requests by status, requests a second, and the latency of those
// with status 200. Of Tessera, this links what makes arrivals and nothing that serves.
#include "share/load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Options {
  std::string host, path, body;
  int port = 0, loops = 1;
  double rate = 0, seconds = 5;
  long json_bytes = -1;
  tessera::bench::Load load;
};

// One connection; opened anew after an error. A server may close one that is idle at any moment (RFC 9112, 9.5), so a
// request that a used connection took without one byte of an answer is sent again on a new one, as HTTP clients do.
class Connection {
 public:
  explicit Connection(const Options& options) : options_(options) {}
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The status of the answer; 0 without one, -1 where no connection could be had, -2 where the request was not taken.
  int ask(const std::string& request) {
    const bool is_used = descriptor_ >= 0;
    const int status = ask_once(request);
    return is_used && (status == -2 || (status == 0 && answer_.empty())) ? ask_once(request) : status;
  }

 private:
  int ask_once(const std::string& request) {
    answer_.clear();
    if (descriptor_ < 0 && !open()) return -1;
    if (!send_all(request)) return close(), -2;
    const int status = receive();
    if (status == 0 || closes_) close();
    return status;
  }
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
    std::size_t head = std::string::npos, length = 0;
    char block[65536];
    while (head == std::string::npos || answer_.size() < head + 4 + length) {
      const ssize_t count = ::recv(descriptor_, block, sizeof(block), 0);
      if (count <= 0) return 0;
      answer_.append(block, static_cast<std::size_t>(count));
      if (head != std::string::npos) continue;
      head = answer_.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      length = std::strtoul(header("content-length: ", head), nullptr, 10);
      closes_ = strncasecmp(header("connection: ", head), "close", 5) == 0;
    }
    return std::atoi(answer_.c_str() + 9);
  }

  // The value of the header of this name, compared without case, among the first bytes of the answer, or "" if it has
  // none.
  const char* header(const char* name, std::size_t end) const {
    const char* found = strcasestr(answer_.c_str(), name);
    return found != nullptr && found < answer_.c_str() + end ? found + std::strlen(name) : "";
  }

  const Options& options_;
  int descriptor_ = -1;
  bool closes_ = false;
  std::string answer_;
};

std::string request_of(const Options& options) {
  std::string request = "POST " + options.path +
                        " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(options.body.size()) + "\r\n";
  if (options.json_bytes >= 0)
    request += "Inference-Header-Content-Length: " + std::to_string(options.json_bytes) + "\r\n";
  return request + "\r\n" + options.body;
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  options.host = words[0];
  options.port = std::atoi(words[1].c_str());
  options.path = words[2];
  std::ifstream file(words[3], std::ios::binary);
  options.body.assign(std::istreambuf_iterator<char>(file), {});
  std::size_t i = 4;
  for (; i + 1 < words.size() && words[i] != "--"; i += 2) {
    const std::string &name = words[i], &value = words[i + 1];
    if (name == "--json-bytes") options.json_bytes = std::atol(value.c_str());
    else if (name == "--loops") options.loops = std::atoi(value.c_str());
    else if (name == "--rate") options.rate = std::atof(value.c_str());
    else if (name == "--seconds") options.seconds = std::atof(value.c_str());
    else throw std::runtime_error("unknown option " + name);
  }
  if (i < words.size() && words[i] == "--")
    options.load = tessera::bench::parse_load({words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()});
  else if (options.rate > 0)
    options.load = tessera::bench::parse_load(
        {"uniform", std::to_string(options.rate * options.seconds), std::to_string(options.rate)});
  else options.load = {.is_closed = true, .count = std::int64_t{1} << 60};
  // An open loop needs as many connections as requests may be in flight.
  if (!options.load.is_closed && options.loops == 1) options.loops = 128;
  return options;
}

nlohmann::json measure(const Options& options) {
  const std::string request = request_of(options);
  const double most_seconds = options.load.is_closed ? options.seconds : 1e9;
  const tessera::bench::LoadResult result = tessera::bench::run_load(
      options.load, options.loops,
      [&] {
        return [&request, connection = std::make_shared<Connection>(options)] { return connection->ask(request); };
      },
      200, most_seconds);
  nlohmann::json statuses = nlohmann::json::object();
  for (const auto& [status, count] : result.outcomes) statuses[std::to_string(status)] = count;
  nlohmann::json figures = tessera::bench::summary(result.latencies_us);
  figures["statuses"] = statuses;
  figures["per_second"] = static_cast<double>(result.latencies_us.size()) / result.seconds;
  figures["histogram"] = tessera::bench::histogram(result.latencies_us);
  if (!options.load.is_closed) figures["lateness"] = tessera::bench::summary(result.lateness_us);
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: bench_serve_load HOST PORT PATH BODY_FILE [options]\n"), 2;
  try {
    std::printf("%s\n", measure(parse({argv + 1, argv + argc})).dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "bench_serve_load: %s\n", error.what()), 2;
  }
}
