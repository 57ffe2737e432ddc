// The subcommands of `tessera share`, a file each.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::apps {

void add_share_simulate(CLI::App& verb);
void add_share_daemon(CLI::App& verb);
void add_share_run(CLI::App& verb);
void add_share_status(CLI::App& verb);
void add_share_record(CLI::App& verb);

}  // namespace tessera::apps
