// The command line of the server, which the program `tessera` describes and `tessera-serve` obeys.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera::apps {

struct ServeArguments {
  std::string repository, config;
  std::optional<std::string> http, grpc, metrics, policy, log_level;
  std::optional<std::string> control_mode, ready_when;
  std::vector<std::string> load_models;
  std::optional<double> poll_s, drain_s, shutdown_delay_s;
  std::optional<int> threads;
  bool json = false;
  // tessera serve health
  bool asks_health = false, accepts_any_certificate = false;
  std::string health_url = "http://127.0.0.1:8000/v2/health/ready", authorities, certificate, key;
  double timeout_s = 2;
  // tessera serve audit-verify
  bool verifies = false;
  std::vector<std::string> audit_files;
  std::string audit_key, audit_head;
};

// `arguments` must live as long as the verb.
void add_serve_command(CLI::App& verb, ServeArguments& arguments);

}  // namespace tessera::apps
