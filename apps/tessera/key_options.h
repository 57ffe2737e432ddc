// The options that say where the key of a protected model comes from (docs/protect.md).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tessera/protect.h"

namespace tessera::apps {

// --key-file, --key-command, --password-file and --password for every verb that reads models. Their key becomes the
// default key of the process, in place of that of the environment. --symbols and --library say likewise what obfuscated
// models need.
void add_key_options(CLI::App& app);
// Makes the environment's key the default one and lets no core dump of this process be written if there is a key. To be
// called before the command line is parsed. Throws Error(invalid_argument).
void use_environment_key();
// Lets no core dump of this process be written, for when it holds secrets.
void forbid_core_dumps();
// Makes this key the default one and lets no core dump of this process be written.
void use_key(const KeySource& source);

// Adds these options under names with a prefix, such as "current-", for one key of a verb's own; at most one can be
// given.
void add_key_source(CLI::App& verb, const std::string& prefix, const std::string& purpose, KeySource& source);

}  // namespace tessera::apps
