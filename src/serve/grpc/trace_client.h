// Sends spans to a collector of OpenTelemetry as OTLP over gRPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/core/operations/tracing.h"
#include "serve/http/client.h"

namespace tessera::serve {

// The spans as an ExportTraceServiceRequest in protobuf's encoding
// (https://opentelemetry.io/docs/specs/otlp/#otlpgrpc).
std::string otlp_protobuf(const std::vector<Span>& spans, const std::string& service);

// For one thread. The files of its options are read anew every minute; where that fails, what was read before stays.
class GrpcTraceClient {
 public:
  // Throws Error(io) for files that cannot be read.
  GrpcTraceClient(HttpEndpoint endpoint, HttpClientOptions options);
  ~GrpcTraceClient();

  // Sends what otlp_protobuf made. Throws Error(io) when the collector has not taken it all within `seconds`.
  void send(const std::string& spans, double seconds);

 private:
  struct Connection;
  static std::unique_ptr<Connection> connect(const HttpEndpoint& endpoint, const HttpClientOptions& options);

  const HttpEndpoint endpoint_;
  const HttpClientOptions options_;
  std::unique_ptr<Connection> connection_;
  std::int64_t read_ns_ = 0;
};

}  // namespace tessera::serve
