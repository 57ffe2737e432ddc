// Figures for Prometheus, in its text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/).
#pragma once

#include <string>

#include "serve/core/models/repository.h"
#include "serve/core/operations/tracing.h"

namespace tessera::serve {

// Counters of the server as a whole, beside those of its models.
struct ServerCounters {
  std::int64_t connections = 0, http_requests = 0, grpc_requests = 0, refused_callers = 0;
  double uptime_s = 0;
  TraceCounters spans;
  std::map<std::string, std::uint64_t> limited_keys;  // requests beyond the rules of keys
  std::uint64_t limited_addresses = 0;                // and of IP addresses
  std::int64_t grpc_connections = 0, refused_grpc_connections = 0;
};

// Names that dashboards for Triton expect (nv_inference_*) and Tessera's own.
std::string metrics_text(const Repository& repository, const ServerCounters& counters);

// Bytes of the process that are in memory.
std::int64_t resident_bytes();

}  // namespace tessera::serve
