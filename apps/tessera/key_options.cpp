#include "key_options.h"

#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/obfuscate.h"

namespace tessera::apps {

// Not 0, because a program that takes dumps from a pipe gets them at any other limit.
void forbid_core_dumps() {
  const rlimit none{1, 1};
  ::setrlimit(RLIMIT_CORE, &none);
}

void use_key(const KeySource& source) {
  forbid_core_dumps();
  set_default_model_key(make_model_key(source));
}

void add_key_source(CLI::App& verb, const std::string& prefix, const std::string& purpose, KeySource& source) {
  CLI::Option* const file =
      verb.add_option("--" + prefix + "key-file", source.file, purpose + ": a key file (see 'tessera protect')");
  CLI::Option* const command = verb.add_option("--" + prefix + "key-command", source.command,
                                               purpose + ": a shell command that prints a key file")
                                   ->excludes(file);
  CLI::Option* const password_file =
      verb.add_option("--" + prefix + "password-file", source.password_file, purpose + ": a file with the password")
          ->excludes(file)
          ->excludes(command);
  verb.add_flag("--" + prefix + "password", source.asks_for_password, purpose + ": ask for the password")
      ->excludes(file)
      ->excludes(command)
      ->excludes(password_file);
}

void add_key_options(CLI::App& app) {
  const auto source = std::make_shared<KeySource>();
  add_key_source(app, "", "The key of protected models", *source);
  const auto symbols = std::make_shared<std::vector<std::string>>();
  const auto libraries = std::make_shared<std::vector<std::string>>();
  app.add_option("--symbols", *symbols,
                 "The symbols of an obfuscated model, or its licence (see 'tessera protect'); may be repeated");
  app.add_option("--library", *libraries, "The operator library of an obfuscated model; may be repeated");
  app.parse_complete_callback([source, symbols, libraries] {
    if (source->is_set()) use_key(*source);
    for (const std::string& path : *symbols) use_symbols(path);
    for (const std::string& path : *libraries) use_operator_library(path);
  });
}

void use_environment_key() {
  use_key_of_environment();
  if (default_model_key() != nullptr) forbid_core_dumps();
}

}  // namespace tessera::apps
