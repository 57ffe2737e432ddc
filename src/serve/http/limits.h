// What a client over HTTP may ask for, and how long it may take.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::serve {

struct HttpLimits {
  std::int64_t header_bytes = 16 << 10;
  std::int64_t body_bytes = std::int64_t{256} << 20;      // of one request, also after decompression
  std::int64_t all_bodies_bytes = std::int64_t{1} << 30;  // of all requests that are being received or answered
  std::int64_t connections = 1024;
  double header_seconds = 10;          // from the first byte to the end of the header, and for the TLS handshake
  double idle_seconds = 75;            // between two requests
  double stall_seconds = 20;           // without a byte
  double bytes_per_second = 16 << 10;  // the least, after stall_seconds, of a body or an answer
};

// Bytes of bodies that all connections hold together.
class BodyBudget {
 public:
  explicit BodyBudget(std::int64_t limit) : limit_(limit) {}
  bool take(std::int64_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_) return true;
    used_.fetch_sub(bytes);
    return false;
  }
  void give_back(std::int64_t bytes) { used_.fetch_sub(bytes); }
  std::int64_t used() const { return used_.load(); }

 private:
  const std::int64_t limit_;
  std::atomic<std::int64_t> used_{0};
};

}  // namespace tessera::serve
