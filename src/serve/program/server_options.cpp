#include "serve/program/server_options.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "io/file.h"
#include "io/toml_table.h"
#include "serve/core/operations/digest.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostConfigBytes = 1 << 20;
constexpr double kMostDelaySeconds = 3600;
constexpr std::int64_t kMostWhole = 1 << 20;  // of mebibytes, bytes of a header, and connections

std::string read_text(const std::string& path) {
  const std::vector<std::byte> bytes = io::read_file(path, kMostConfigBytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

AllowanceRule read_rule(io::TomlTable& table, const std::string& prefix, const std::string& where) {
  AllowanceRule rule;
  rule.requests_per_second = table.number(prefix + "requests_per_second", 0);
  rule.requests_in_flight = table.whole(prefix + "requests_in_flight", 0);
  require(rule.requests_per_second >= 0, ErrorKind::invalid_argument, "{}requests_per_second of {} is negative", prefix,
          where);
  require(rule.requests_in_flight >= 0, ErrorKind::invalid_argument, "{}requests_in_flight of {} is negative", prefix,
          where);
  return rule;
}

AccessKey read_key(const std::string& name, io::TomlTable table, const std::string& where) {
  AccessKey key;
  key.name = name;
  key.token_sha256 = table.text("token_sha256", "");
  std::ranges::transform(key.token_sha256, key.token_sha256.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string file = table.text("token_file", "");
  if (!file.empty()) {
    std::string token = read_text(file);
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
    require(token.size() >= 16, ErrorKind::invalid_argument, "the token in {} has {} bytes, expected 16 or more", file,
            token.size());
    key.token_sha256 = sha256(token);
  }
  key.certificate = table.text("certificate", "");
  for (const std::string& role : table.texts("roles")) key.roles.push_back(parse_role(role));
  key.models = table.texts("models");
  key.rule = read_rule(table, "", fmt::format("key '{}' in {}", name, where));
  const bool is_digest =
      key.token_sha256.size() == 64 && key.token_sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  require(key.token_sha256.empty() || is_digest, ErrorKind::invalid_argument,
          "token_sha256 of key '{}' in {} is no SHA-256 of 64 hexadecimal digits", name, where);
  require(is_digest || !key.certificate.empty(), ErrorKind::invalid_argument,
          "key '{}' in {} has neither token_sha256, token_file nor certificate", name, where);
  require(!key.roles.empty(), ErrorKind::invalid_argument, "key '{}' in {} has no roles", name, where);
  return key;
}

// A value of the configuration, between these bounds.
template <typename T>
T within(T value, T least, T most, std::string_view key, const std::string& where) {
  require(value >= least && value <= most, ErrorKind::invalid_argument, "{} in {} is {}, expected {} to {}", key, where,
          value, least, most);
  return value;
}

std::int64_t whole_within(io::TomlTable& table, std::string_view key, std::int64_t usual, std::int64_t least,
                          std::int64_t most, const std::string& where) {
  return within(table.whole(key, usual), least, most, key, where);
}

void read_limits(io::TomlTable table, const std::string& where, HttpLimits& limits) {
  const auto whole = [&](std::string_view key, std::int64_t usual, std::int64_t least) {
    return whole_within(table, key, usual, least, kMostWhole, where);
  };
  const auto seconds = [&](std::string_view key, double usual) {
    constexpr double kLeastSeconds = 0.01, kMostSeconds = 1e6;
    return within(table.number(key, usual), kLeastSeconds, kMostSeconds, key, where);
  };
  limits.body_bytes = whole("body_mib", limits.body_bytes >> 20, 1) << 20;
  limits.all_bodies_bytes = whole("all_bodies_mib", limits.all_bodies_bytes >> 20, 1) << 20;
  limits.header_bytes = whole("header_bytes", limits.header_bytes, 1024);
  limits.connections = whole("connections", limits.connections, 1);
  limits.connections_per_peer =
      whole("connections_per_peer",
            std::min(limits.connections_per_peer, std::max<std::int64_t>(limits.connections / 2, 1)), 1);
  limits.calls = whole("calls", limits.calls, 2);
  limits.streams_per_connection = whole("streams_per_connection", limits.streams_per_connection, 1);
  limits.stream_answer_bytes = whole("stream_answers_mib", limits.stream_answer_bytes >> 20, 1) << 20;
  limits.header_seconds = seconds("header_seconds", limits.header_seconds);
  limits.idle_seconds = seconds("idle_seconds", limits.idle_seconds);
  limits.stall_seconds = seconds("stall_seconds", limits.stall_seconds);
  limits.transfer_seconds = seconds("transfer_seconds", limits.transfer_seconds);
}

void read_control(io::TomlTable& table, const std::string& where, ServerOptions& options) {
  const std::string mode = table.text("model_control_mode", "");
  if (!mode.empty()) options.control.mode = parse_model_control(mode);
  if (table.has("load_models")) options.control.load = table.texts("load_models");
  if (!table.has("ready_when")) return;
  const std::vector<std::string> ready = table.texts("ready_when");
  require(!ready.empty(), ErrorKind::invalid_argument,
          "ready_when in {} is empty, expected all, any or names of models", where);
  options.control.ready = parse_ready_rule(fmt::format("{}", fmt::join(ready, ",")));
}

void read_tracing(io::TomlTable table, const std::string& where, ServerOptions& options) {
  const std::string protocol = table.text("protocol", "http/json");
  require(protocol == "http/json" || protocol == "grpc", ErrorKind::invalid_argument,
          "protocol of [tracing] in {} is '{}', expected \"http/json\" or \"grpc\"", where, protocol);
  options.tracing = {table.text("endpoint", ""), table.number("rate", 1), table.text("service", "tessera"),
                     protocol == "grpc"};
  require(options.tracing.rate >= 0 && options.tracing.rate <= 1, ErrorKind::invalid_argument,
          "the rate of [tracing] in {} is {}, expected 0 to 1", where, options.tracing.rate);
  options.collector.authorities = table.text("authorities", "");
  options.collector.certificate = table.text("certificate", "");
  options.collector.key = table.text("key", "");
  options.collector.token_file = table.text("token_file", "");
  options.collector.headers = table.table("headers").all_texts();
  if (!options.tracing.endpoint.empty()) HttpClient(parse_http_endpoint(options.tracing.endpoint), options.collector);
}

}  // namespace

void parse_server_config(const std::string& text, const std::string& where, ServerOptions& options) {
  io::TomlTable table = io::TomlTable::parse(text, where);
  options.repository = table.text("repository", options.repository);
  options.http = table.text("http", options.http);
  options.grpc = table.text("grpc", options.grpc);
  options.metrics = table.text("metrics", options.metrics);
  options.policy = table.text("policy", options.policy);
  options.poll_seconds = table.number("poll_seconds", options.poll_seconds);
  read_control(table, where, options);
  options.shutdown_delay_seconds = within(table.number("shutdown_delay_seconds", options.shutdown_delay_seconds), 0.0,
                                          kMostDelaySeconds, "shutdown_delay_seconds", where);
  options.drain_seconds = table.number("drain_seconds", options.drain_seconds);
  options.threads = static_cast<int>(whole_within(table, "threads", options.threads, 1, 256, where));
  options.shared_memory_is_given = table.has("shared_memory");
  options.shared_memory = table.boolean("shared_memory", options.shared_memory);
  options.shared_memory_prefix = table.text("shared_memory_prefix", "");
  options.log_level = table.text("log_level", options.log_level);
  if (table.has("hosts")) options.hosts = table.texts("hosts");
  if (table.has("origins")) options.origins = table.texts("origins");
  io::TomlTable cache = table.table("cache");
  options.cache_bytes = whole_within(cache, "most_mib", options.cache_bytes >> 20, 0, kMostWhole, "[cache] of " + where)
                        << 20;
  io::TomlTable limits = table.table("limits");
  options.peer_rule = read_rule(limits, "peer_", "[limits] of " + where);
  read_limits(limits, "[limits] of " + where, options.limits);
  if (table.has("reflection")) options.reflection = table.boolean("reflection", true);
  io::TomlTable access_log = table.table("access_log");
  const std::string in_log = "[access_log] of " + where;
  options.access_log.file = access_log.text("file", "");
  options.access_log.most_bytes = whole_within(access_log, "most_mib", 64, 1, kMostWhole, in_log) << 20;
  options.access_log.most_files = whole_within(access_log, "most_files", 8, 1, 1000, in_log);
  io::TomlTable tls = table.table("tls");
  options.tls = {tls.text("certificate", ""), tls.text("key", ""), tls.text("client_authorities", ""),
                 tls.boolean("require_certificate", false)};
  require(options.tls.certificate.empty() == options.tls.key.empty(), ErrorKind::invalid_argument,
          "[tls] in {} needs both certificate and key", where);
  io::TomlTable audit = table.table("audit");
  options.audit_file = audit.text("file", "");
  const std::string in_audit = "[audit] of " + where;
  options.audit.most_bytes = whole_within(audit, "most_mib", 64, 1, kMostWhole, in_audit) << 20;
  options.audit.most_files = whole_within(audit, "most_files", 16, 1, kMostWhole, in_audit);
  const std::string full = audit.text("audit_full", "refuse");
  require(full == "refuse" || full == "drop", ErrorKind::invalid_argument,
          "audit_full in {} is '{}', expected \"refuse\" or \"drop\"", in_audit, full);
  options.audit.refuses_when_full = full == "refuse";
  const std::string key_file = audit.text("audit_key_file", "");
  if (!key_file.empty()) options.audit.key = read_audit_key(key_file);
  options.audit_inference = audit.boolean("inference", false);
  read_tracing(table.table("tracing"), where, options);
  io::TomlTable keys = table.table("key");
  for (const std::string& name : keys.tables()) options.keys.push_back(read_key(name, keys.table(name), where));
  table.check_all_read();
}

void read_server_config(const std::string& path, ServerOptions& options) {
  parse_server_config(read_text(path), path, options);
}

}  // namespace tessera::serve
