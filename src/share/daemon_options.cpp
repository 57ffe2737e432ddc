// Reads a daemon's configuration and writes the report on its jobs.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/numbers/units.h"
#include "io/toml_table.h"
#include "lease/job_description.h"
#include "lease/trusted_daemon.h"
#include "share/daemon.h"
#include "share/trace.h"

namespace tessera::share {
namespace {

const char* activity_text(const LeaseReport& job) {
  if (job.lost) return "lost its turn";
  switch (job.activity) {
    case lease::Activity::idle:
      return "idle";
    case lease::Activity::computes:
      return "computes";
    case lease::Activity::waits:
      return "waits";
    case lease::Activity::held:
      return "held";
  }
  return "unknown";  // what the process wrote is no activity
}

}  // namespace

DaemonOptions parse_daemon_options(const std::string& text, const std::string& where) {
  io::TomlTable table = io::TomlTable::parse(text, where);
  DaemonOptions options;
  options.policy = table.text("policy", options.policy);
  if (const std::string memory = table.text("memory", ""); !memory.empty())
    options.memory_bytes = parse_bytes(memory, "memory");
  for (const std::string& user : table.texts("users")) {
    for (const uid_t number : lease::parse_users(user, "the key 'users'")) options.users.push_back(number);
  }
  table.check_all_read();
  make_policy(options.policy);  // an unknown one is told at once
  return options;
}

std::string status_text(const std::string& policy, const std::vector<LeaseReport>& jobs, std::int64_t now_ns) {
  nlohmann::json list = nlohmann::json::array();
  double device_ns = 0;
  for (const LeaseReport& job : jobs) device_ns += static_cast<double>(job.device_ns);
  for (const LeaseReport& job : jobs) {
    double weights = 0;
    for (const LeaseReport& other : jobs) {
      if (other.options.priority == job.options.priority) weights += other.options.weight;
    }
    list.push_back({{"name", job.options.name},
                    {"class", lease::name_of(job.options.priority)},
                    {"process", job.process},
                    {"activity", activity_text(job)},
                    {"weight", job.options.weight},
                    {"promised_share_of_class", job.options.weight / weights},
                    {"device_share", device_ns > 0 ? static_cast<double>(job.device_ns) / device_ns : 0},
                    {"device_s", 1e-9 * static_cast<double>(job.device_ns)},
                    {"processor_s", 1e-9 * static_cast<double>(job.processor_ns)},
                    {"attached_s", 1e-9 * static_cast<double>(now_ns - job.attached_ns)},
                    {"memory_bytes", job.memory_bytes},
                    {"peak_memory_bytes", job.peak_memory_bytes},
                    {"guarantee_bytes", job.options.guarantee_bytes},
                    {"runs", job.runs},
                    {"failed_runs", job.failed_runs},
                    {"waited_s", 1e-9 * static_cast<double>(job.waited_ns)},
                    {"p50_ms", 1e-6 * static_cast<double>(job.p50_ns)},
                    {"p99_ms", 1e-6 * static_cast<double>(job.p99_ns)},
                    {"goal_ms", 1e-6 * static_cast<double>(job.options.goal_ns)},
                    {"goal_misses", job.goal_misses},
                    {"spills", job.spills},
                    {"prediction_error", job.prediction_error}});
  }
  const nlohmann::json status = {{"policy", policy}, {"daemon", getpid()}, {"jobs", list}};
  return status.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tessera::share
