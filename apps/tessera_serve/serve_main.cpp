#include "serve_main.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iterator>

#include "key_options.h"
#include "serve/core/operations/audit_log.h"
#include "serve/core/operations/log.h"
#include "serve/http/client.h"
#include "serve/program/server_program.h"
#include "serve/protocol/response_encoder.h"
#include "serve_command.h"
#include "tessera/error.h"
#include "tessera/images.h"
#include "tessera/log.h"
#include "tessera/version.h"

namespace tessera::apps {
namespace {

int verify(const ServeArguments& arguments) {
  serve::AuditProof proof;
  if (!arguments.audit_key.empty()) proof.key = serve::read_audit_key(arguments.audit_key);
  proof.head = arguments.audit_head;
  const auto refuse = [&](const std::string& file, std::int64_t line, const std::string& mistake) {
    if (arguments.json)
      fmt::print("{{\"whole\":false,\"file\":{},\"line\":{},\"mistake\":{}}}\n", serve::json_text(file), line,
                 serve::json_text(mistake));
    else fmt::print("{}: line {}: {}\n", file, line, mistake);
    return 1;
  };
  std::string previous;
  std::int64_t lines = 0, line_of_head = 0, lines_of_last = 0;
  for (const std::string& file : arguments.audit_files) {
    const serve::AuditVerdict verdict = serve::verify_audit_log(file, previous, proof);
    if (verdict.first_wrong_line > 0) return refuse(file, verdict.first_wrong_line, verdict.mistake);
    if (verdict.head_line > 0) line_of_head = lines + verdict.head_line;
    lines += verdict.lines;
    lines_of_last = verdict.lines;
    if (verdict.lines > 0) previous = verdict.last_hash;
  }
  if (!proof.head.empty() && line_of_head == 0)
    return refuse(arguments.audit_files.back(), lines_of_last,
                  "no line has the hash of --head: the log was written anew before it, or cut off");
  if (arguments.json)
    fmt::print("{{\"whole\":true,\"lines\":{},\"last_hash\":{},\"keyed\":{},\"line_of_head\":{}}}\n", lines,
               serve::json_text(previous), !proof.key.empty(), line_of_head);
  else
    fmt::print("the chain of {} lines is whole{}, and ends with {}{}\n", lines,
               proof.key.empty() ? "" : " under the key", previous,
               line_of_head == 0 ? "" : fmt::format("; line {} of it has the hash of --head", line_of_head));
  return 0;
}

int ask_health(const ServeArguments& arguments) {
  const serve::HttpEndpoint endpoint = serve::parse_http_endpoint(arguments.health_url);
  serve::HttpClient client(endpoint, {.authorities = arguments.authorities,
                                      .certificate = arguments.certificate,
                                      .key = arguments.key,
                                      .accepts_any_certificate = arguments.accepts_any_certificate});
  try {
    const int status = client.get(arguments.timeout_s);
    if (status == 200) return fmt::print("ready\n"), 0;
    fmt::print(stderr, "tessera: {} answers with the status {}\n", arguments.health_url, status);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera: {} does not answer: {}\n", arguments.health_url, error.what());
  }
  return 1;
}

serve::ServerOptions options_of(const ServeArguments& arguments) {
  serve::ServerOptions options;
  if (!arguments.config.empty()) serve::read_server_config(arguments.config, options);
  if (!arguments.repository.empty()) options.repository = arguments.repository;
  options.http = arguments.http.value_or(options.http);
  options.grpc = arguments.grpc.value_or(options.grpc);
  options.metrics = arguments.metrics.value_or(options.metrics);
  options.policy = arguments.policy.value_or(options.policy);
  options.log_level = arguments.log_level.value_or(options.log_level);
  options.poll_seconds = arguments.poll_s.value_or(options.poll_seconds);
  if (arguments.control_mode) options.control.mode = serve::parse_model_control(*arguments.control_mode);
  if (!arguments.load_models.empty()) options.control.load = arguments.load_models;
  if (arguments.ready_when) options.control.ready = serve::parse_ready_rule(*arguments.ready_when);
  options.shutdown_delay_seconds = arguments.shutdown_delay_s.value_or(options.shutdown_delay_seconds);
  options.drain_seconds = arguments.drain_s.value_or(options.drain_seconds);
  options.threads = arguments.threads.value_or(options.threads);
  return options;
}

// An address with the port that the system chose where 0 was asked for.
std::string with_port(const std::string& address, int port) {
  return fmt::format("{}:{}", address.substr(0, address.rfind(':')), port);
}

void print_addresses(const serve::ServerOptions& options, const serve::ServerPorts& ports, bool json) {
  if (json) {
    fmt::print("{{\"http\":{},\"grpc\":{},\"metrics\":{}}}\n", ports.http, ports.grpc, ports.metrics);
  } else {
    const char* const scheme = options.tls.is_on() ? "https" : "http";
    std::string line = "serving on";
    if (ports.http != 0)
      fmt::format_to(std::back_inserter(line), " {}://{}", scheme, with_port(options.http, ports.http));
    if (ports.grpc != 0) fmt::format_to(std::back_inserter(line), ", gRPC {}", with_port(options.grpc, ports.grpc));
    if (ports.metrics != 0)
      fmt::format_to(std::back_inserter(line), ", metrics {}://{}/metrics", scheme,
                     with_port(options.metrics, ports.metrics));
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

int run(CLI::App& app, const ServeArguments& arguments, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : exit_code(ErrorKind::invalid_argument);
  }
  if (arguments.verifies) return verify(arguments);
  if (arguments.asks_health) return ask_health(arguments);
  const serve::ServerOptions options = options_of(arguments);
  serve::run_server(options, [&](const serve::ServerPorts& ports) { print_addresses(options, ports, arguments.json); });
  return 0;
}

}  // namespace

int serve_main(int argc, char** argv) {
  CLI::App app{"Answers requests for inference over HTTP and gRPC."};
  app.name("tessera serve");
  app.set_version_flag("--version", std::string("tessera-serve ") + TESSERA_VERSION);
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "Log the details of warnings");
  app.fallthrough();
  add_key_options(app);
  ServeArguments arguments;
  add_serve_command(app, arguments);
  register_image_codecs();
  set_log_handler([&verbose](LogLevel level, std::string_view message) {
    if (level == LogLevel::warning || verbose) serve::log(serve::Level::warning, message);
  });
  try {
    use_environment_key();
    const int code = run(app, arguments, argc, argv);
    set_log_handler({});
    return code;
  } catch (const Error& error) {
    fmt::print(stderr, "tessera: {}: {}\n", to_string(error.kind()), error.what());
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera: internal error (a bug in Tessera, please report it): {}\n", error.what());
    return 70;
  }
}

}  // namespace tessera::apps
