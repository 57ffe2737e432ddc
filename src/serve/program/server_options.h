// The options that a server is started with: the command line and its configuration file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/core/control/model_control.h"
#include "serve/core/operations/access.h"
#include "serve/core/operations/audit_log.h"
#include "serve/core/operations/tracing.h"
#include "serve/http/client.h"
#include "serve/http/limits.h"
#include "serve/http/tls_context.h"
#include "serve/limits/allowances.h"
#include "serve/observe/access_log.h"

namespace tessera::serve {

struct ServerOptions {
  std::string repository;  // a folder of models, or one model file
  std::string http = "127.0.0.1:8000", grpc = "127.0.0.1:8001", metrics = "127.0.0.1:8002";  // "off": none
  std::string policy = "fill";                                                               // of the arbiter
  double poll_seconds = 0;                            // between two looks at the repository; 0: none
  ControlOptions control;                             // which models are loaded, and when the server is ready
  std::int64_t cache_bytes = std::int64_t{64} << 20;  // for answers of models that ask for a response cache
  double shutdown_delay_seconds = 0;                  // from a signal to end until the server takes no more requests
  double drain_seconds = 30;
  int threads = 2;  // that read and write
  bool shared_memory = true, shared_memory_is_given = false;
  std::string shared_memory_prefix;
  std::string log_level = "info";
  std::vector<std::string> hosts, origins;  // see HttpApiOptions
  HttpLimits limits;
  AllowanceRule peer_rule;         // see ServiceOptions
  std::optional<bool> reflection;  // of gRPC; unless given, where there are no keys
  AccessLogOptions access_log;
  TlsFiles tls;
  std::string audit_file;
  AuditOptions audit;
  bool audit_inference = false;
  TracingOptions tracing;
  HttpClientOptions collector;  // how to reach the collector of traces
  std::vector<AccessKey> keys;
};

// Changes what the file sets; docs/serving.md lists the keys. Throws Error(invalid_argument), naming line and key.
void read_server_config(const std::string& path, ServerOptions& options);
void parse_server_config(const std::string& text, const std::string& where, ServerOptions& options);

}  // namespace tessera::serve
