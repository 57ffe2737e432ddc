// tessera share run: a program as a job.
#include <fmt/format.h>

#include <filesystem>

#include "base/cpu_info.h"
#include "base/error.h"
#include "lease/messages.h"
#include "lease/trusted_daemon.h"
#include "share.h"
#include "share/launch.h"
#include "share/trace.h"

namespace tessera::apps {
namespace {

// A program without a weight of its own has the weight 1 and so shares evenly with one of this share, in percent.
constexpr double kShareOfWeightOne = 50;

struct RunArguments {
  lease::JobDescription job;
  std::string socket, name_of_class = "standard", memory, trust;
  double goal_ms = 0, share = 0;
  bool hard = false, quiet = false;
  std::vector<std::string> command;
};

// Returns whether the job will be one among others.
std::string daemon_text(const lease::DaemonConnection& daemon, const std::string& socket) {
  switch (daemon.failure) {
    case lease::DaemonConnection::Failure::none:
      return fmt::format("a daemon listens at '{}'", socket);
    case lease::DaemonConnection::Failure::no_daemon:
      return fmt::format("no daemon listens at '{}', so it runs alone until one does", socket);
    default:
      return "it runs alone: " + daemon.why;
  }
}

void run_job(const RunArguments& arguments) {
  lease::JobDescription job = arguments.job;
  job.socket = arguments.socket.empty() ? lease::default_socket_path() : arguments.socket;
  job.priority = lease::parse_priority(arguments.name_of_class);
  if (job.name.empty()) job.name = std::filesystem::path(arguments.command.front()).filename().string();
  if (!arguments.memory.empty()) job.memory_bytes = share::parse_bytes(arguments.memory, "--memory");
  require(!arguments.hard || arguments.share > 0, ErrorKind::invalid_argument,
          "--hard makes a bound of the share, which --share PERCENT gives");
  if (arguments.share > 0) job.weight = arguments.share / kShareOfWeightOne;
  if (arguments.hard) job.hard_cores = arguments.share / 100 * base::cpu_info().usable_cores;
  job.goal_ns = static_cast<std::int64_t>(1e6 * arguments.goal_ms);
  job.trusted =
      arguments.trust.empty() ? lease::trusted_by_environment() : lease::parse_users(arguments.trust, "--trust");
  const lease::DaemonConnection daemon = lease::connect_to_daemon(job.socket, job.trusted);
  const std::string how = share::become_job(job);
  if (!arguments.quiet)
    fmt::print(stderr, "tessera share: '{}' is {}, {}; {}\n", job.name, arguments.name_of_class, how,
               daemon_text(daemon, job.socket));
  share::execute(arguments.command);
}

}  // namespace

void add_share_run(CLI::App& verb) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* sub = verb.add_subcommand("run", "Run a program as a job");
  sub->add_option("--class", arguments->name_of_class, "How important it is; standard unless given")
      ->type_name("CLASS")
      ->check(CLI::IsMember({"realtime", "standard", "background"}));
  sub->add_option("--goal", arguments->goal_ms, "The latency in ms that a realtime run should have at most")
      ->type_name("MS")
      ->check(CLI::Range(0.0, 1e9));
  CLI::Option* weight =
      sub->add_option("--weight", arguments->job.weight, "Of device time, against others of its class")
          ->type_name("NUMBER")
          ->check(CLI::Range(1e-3, 1e6));
  sub->add_option("--share", arguments->share, "Weight in percent; idle time beyond it may be borrowed, unless --hard")
      ->type_name("PERCENT")
      ->check(CLI::Range(0.1, 100.0))
      ->excludes(weight);
  sub->add_flag("--hard", arguments->hard, "Never use more of the cores than the share");
  sub->add_option("--memory", arguments->memory, "Memory that is guaranteed to the job, and the most that it may hold")
      ->type_name("SIZE");
  sub->add_option("--name", arguments->job.name, "For people; the program's name unless given")->type_name("NAME");
  sub->add_option("--socket", arguments->socket, "Of the daemon")->type_name("PATH");
  sub->add_option("--trust", arguments->trust,
                  "Users whose daemon the job may attach to, beside yours and root's, with commas between")
      ->type_name("USERS");
  sub->add_flag("-q,--quiet", arguments->quiet, "Do not say how the job is scheduled");
  sub->add_option("COMMAND", arguments->command, "The program and its arguments, after --")->required();
  sub->positionals_at_end();
  sub->footer(
      "The program takes the place of this one, so its exit code and signals are its own. Programs that use Tessera\n"
      "attach to the daemon; others are known to the operating system's scheduler alone.\n\n"
      "Examples:\n"
      "  tessera share run --class background -- tessera train training.toml\n"
      "  tessera share run --share 30 --hard -- python3 prepare.py");
  sub->callback([arguments] { run_job(*arguments); });
}

}  // namespace tessera::apps
