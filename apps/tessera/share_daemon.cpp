// tessera share daemon: the process that jobs of other processes attach to.
#include <fmt/format.h>

#include "io/file.h"
#include "share.h"
#include "share/daemon.h"
#include "signals.h"

namespace tessera::apps {
namespace {

struct DaemonArguments {
  std::string socket, policy, config;
};

void run_daemon(const DaemonArguments& arguments) {
  share::DaemonOptions options;
  if (!arguments.config.empty()) {
    const std::vector<std::byte> bytes = io::read_file(arguments.config, std::int64_t{1} << 20);
    options =
        share::parse_daemon_options({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, arguments.config);
  }
  options.socket = arguments.socket;
  if (!arguments.policy.empty()) options.policy = arguments.policy;
  const GracefulStop stop;
  share::Daemon daemon(options);
  fmt::print(stderr, "tessera share: listens at '{}' with the policy {}; Ctrl-C ends it\n", daemon.socket_path(),
             options.policy);
  daemon.serve(stop.cancellation());
}

}  // namespace

void add_share_daemon(CLI::App& verb) {
  auto arguments = std::make_shared<DaemonArguments>();
  CLI::App* sub = verb.add_subcommand("daemon", "Let processes attach, and decide whose turn it is");
  sub->add_option("--socket", arguments->socket,
                  "Where to listen; $XDG_RUNTIME_DIR/tessera/share.sock or /tmp/tessera-UID/share.sock unless given")
      ->type_name("PATH");
  sub->add_option(
         "--policy", arguments->policy,
         "How to decide: fifo, fair, iteration, headroom, fill (unless given) or predictive; see docs/sharing.md")
      ->type_name("NAME");
  sub->add_option("--config", arguments->config, "TOML file with the keys policy, memory (\"8GiB\") and users")
      ->type_name("FILE.toml");
  sub->footer(
      "Only processes of the same user attach, and of users that the configuration names. Where the daemon ends, jobs\n"
      "go on alone and attach to the next one.\n\n"
      "Example:\n  tessera share daemon --policy fair");
  sub->callback([arguments] { run_daemon(*arguments); });
}

}  // namespace tessera::apps
