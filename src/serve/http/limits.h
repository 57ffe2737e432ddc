// Limits on a client's requests: sizes, counts and times.
#pragma once

#include <cstdint>

namespace tessera::serve {

// They hold for gRPC as well, where a message is a body.
struct HttpLimits {
  std::int64_t header_bytes = 16 << 10;
  std::int64_t body_bytes = std::int64_t{256} << 20;          // of one request, also after decompression
  std::int64_t all_bodies_bytes = std::int64_t{1} << 30;      // of all bodies and answers that connections hold
  std::int64_t connections = 1024;                            // of each address that the server listens on
  std::int64_t connections_per_peer = 512;                    // from one IP address
  std::int64_t streams_per_connection = 256;                  // of gRPC: calls at a time
  std::int64_t calls = 4096;                                  // of gRPC: at a time, half of them by one peer
  std::int64_t stream_answer_bytes = std::int64_t{64} << 20;  // of gRPC: of a stream's answers that wait
  double header_seconds = 10;          // from the first byte to the end of the header, and for the TLS handshake
  double idle_seconds = 75;            // between two requests
  double stall_seconds = 20;           // without a byte
  double bytes_per_second = 16 << 10;  // the least, after stall_seconds, of a body or an answer
  double transfer_seconds = 300;       // the most for a body or an answer, whatever its size
};

}  // namespace tessera::serve
