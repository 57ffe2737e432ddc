// tessera share: many jobs on one device.
#include "share.h"

#include "verbs.h"

namespace tessera::apps {

void add_share(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("share", "Share one device among many jobs");
  verb->require_subcommand(1);
  add_share_daemon(*verb);
  add_share_run(*verb);
  add_share_status(*verb);
  add_share_record(*verb);
  add_share_simulate(*verb);
  verb->footer(
      "Example, in three terminals:\n"
      "  tessera share daemon\n"
      "  tessera share run --class background -- tessera train training.toml\n"
      "  tessera share run --class realtime -- tessera bench model.onnx");
}

}  // namespace tessera::apps
