// tessera share status: the jobs of a daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "lease/messages.h"
#include "lease/trusted_daemon.h"
#include "share.h"
#include "signals.h"

namespace tessera::apps {
namespace {

struct StatusArguments {
  std::string socket, trust;
  bool json = false, watch = false;
};

// Seconds of device time that a job has had since an earlier status, or since it attached.
double device_s_since(const nlohmann::json& job, const nlohmann::json& earlier) {
  const double had_s = job["device_s"].get<double>();
  if (earlier.is_null()) return had_s;
  for (const nlohmann::json& before : earlier["jobs"]) {
    if (before["process"] == job["process"] && before["name"] == job["name"])
      return std::max(0.0, had_s - before["device_s"].get<double>());
  }
  return had_s;
}

// `earlier`: what device% counts from, or null: from the beginning.
void print_table(const nlohmann::json& status, const nlohmann::json& earlier) {
  double total_s = 0;
  for (const nlohmann::json& job : status["jobs"]) total_s += device_s_since(job, earlier);
  fmt::print("policy {}, daemon process {}, {} jobs\n", status["policy"].get<std::string>(),
             status["daemon"].get<int>(), status["jobs"].size());
  fmt::print("{:<20} {:<10} {:>8} {:<13} {:>7} {:>7} {:>9} {:>10} {:>9} {:>8} {:>8} {:>8} {:>6} {:>6}\n", "job",
             "class", "process", "state", "device%", "weight%", "device s", "memory", "runs", "waited s", "p50 ms",
             "p99 ms", "missed", "error%");
  for (const nlohmann::json& job : status["jobs"]) {
    fmt::print(
        "{:<20} {:<10} {:>8} {:<13} {:>7.1f} {:>7.1f} {:>9.2f} {:>10} {:>9} {:>8.2f} {:>8.2f} {:>8.2f} {:>6} "
        "{:>6.1f}\n",
        base::printable(base::shown(job["name"].get<std::string>())), job["class"].get<std::string>(),
        job["process"].get<int>(), job["activity"].get<std::string>(),
        total_s > 0 ? 100 * device_s_since(job, earlier) / total_s : 0,
        100 * job["promised_share_of_class"].get<double>(), job["device_s"].get<double>(),
        base::format_bytes(job["memory_bytes"].get<std::int64_t>()), job["runs"].get<std::int64_t>(),
        job["waited_s"].get<double>(), job["p50_ms"].get<double>(), job["p99_ms"].get<double>(),
        job["goal_misses"].get<std::int64_t>(), 100 * job["prediction_error"].get<double>());
  }
}

void show_status(const StatusArguments& arguments) {
  const std::string path = arguments.socket.empty() ? lease::default_socket_path() : arguments.socket;
  const std::vector<uid_t> trusted =
      arguments.trust.empty() ? lease::trusted_by_environment() : lease::parse_users(arguments.trust, "--trust");
  const GracefulStop stop;
  nlohmann::json earlier;
  do {
    const std::string text = lease::request_status(path, trusted);
    if (arguments.json) {
      fmt::print("{}\n", text);
    } else {
      if (arguments.watch && ::isatty(STDOUT_FILENO) != 0) fmt::print("\x1b[H\x1b[2J");
      nlohmann::json status = nlohmann::json::parse(text);
      print_table(status, earlier);
      earlier = std::move(status);
    }
    std::fflush(stdout);
    for (int i = 0; arguments.watch && i < 10 && !stop.requested(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (arguments.watch && !stop.requested());
}

}  // namespace

void add_share_status(CLI::App& verb) {
  auto arguments = std::make_shared<StatusArguments>();
  CLI::App* sub = verb.add_subcommand("status", "Show the jobs of a daemon");
  sub->add_option("--socket", arguments->socket, "Of the daemon")->type_name("PATH");
  sub->add_option("--trust", arguments->trust,
                  "Users whose daemon may be asked, beside yours and root's, with commas between")
      ->type_name("USERS");
  sub->add_flag("--json", arguments->json, "Print JSON; with --watch a line a second");
  sub->add_flag("--watch", arguments->watch, "Show it once a second, until Ctrl-C");
  sub->footer(
      "device% is the part of the device time of all jobs, with --watch since the table before; weight% is what the\n"
      "job's weight is of those of its class; p50 and p99 are of its latest 512 runs; missed counts the runs that\n"
      "took longer than --goal; error% is the median error of predictions of its steps.\n\n"
      "Example:\n  tessera share status --watch");
  sub->callback([arguments] { show_status(*arguments); });
}

}  // namespace tessera::apps
