// tessera share status: the jobs of a daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "lease/messages.h"
#include "share.h"
#include "signals.h"

namespace tessera::apps {
namespace {

struct StatusArguments {
  std::string socket;
  bool json = false, watch = false;
};

void print_table(const nlohmann::json& status) {
  fmt::print("policy {}, daemon process {}, {} jobs\n", status["policy"].get<std::string>(),
             status["daemon"].get<int>(), status["jobs"].size());
  fmt::print("{:<20} {:<10} {:>8} {:<13} {:>8} {:>8} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "job", "class",
             "process", "state", "device%", "weight%", "device s", "memory", "runs", "waited s", "p50 ms", "p99 ms",
             "error%");
  for (const nlohmann::json& job : status["jobs"]) {
    fmt::print(
        "{:<20} {:<10} {:>8} {:<13} {:>8.1f} {:>8.1f} {:>10.2f} {:>10} {:>9} {:>9.2f} {:>9.2f} {:>9.2f} {:>7.1f}\n",
        base::printable(base::shown(job["name"].get<std::string>())), job["class"].get<std::string>(),
        job["process"].get<int>(), job["activity"].get<std::string>(), 100 * job["device_share"].get<double>(),
        100 * job["promised_share_of_class"].get<double>(), job["device_s"].get<double>(),
        base::format_bytes(job["memory_bytes"].get<std::int64_t>()), job["runs"].get<std::int64_t>(),
        job["waited_s"].get<double>(), job["p50_ms"].get<double>(), job["p99_ms"].get<double>(),
        100 * job["prediction_error"].get<double>());
  }
}

void show_status(const StatusArguments& arguments) {
  const std::string path = arguments.socket.empty() ? lease::default_socket_path() : arguments.socket;
  const GracefulStop stop;
  do {
    const std::string text = lease::request_status(path);
    if (arguments.json) {
      fmt::print("{}\n", text);
    } else {
      if (arguments.watch && ::isatty(STDOUT_FILENO) != 0) fmt::print("\x1b[H\x1b[2J");
      print_table(nlohmann::json::parse(text));
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
  sub->add_flag("--json", arguments->json, "Print JSON; with --watch a line a second");
  sub->add_flag("--watch", arguments->watch, "Show it once a second, until Ctrl-C");
  sub->footer(
      "device% is the part of the device time of all jobs, weight% what the job's weight is of those of its class,\n"
      "p50 and p99 are of its latest 512 runs, error% is the median error of predictions of its steps.\n\n"
      "Example:\n  tessera share status --watch");
  sub->callback([arguments] { show_status(*arguments); });
}

}  // namespace tessera::apps
