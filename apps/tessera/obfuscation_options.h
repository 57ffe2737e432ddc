// tessera protect: the options of obfuscation, and what they do.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common.h"
#include "tessera/obfuscate.h"

namespace tessera::apps {

struct ObfuscationOptions {
  std::optional<int> degree;
  std::vector<std::string> passes;
  std::string symbols, library_sources;
  std::string licence, machine;  // the file to write, and whom it is for
  bool measures = false, shows_machine = false;

  bool is_asked_for() const { return degree.has_value() || !passes.empty(); }
};

// The seed is that of add_run_options, which has been called for the verb.
void add_obfuscation_options(CLI::App& verb, ObfuscationOptions& options);

// Writes the obfuscated model, encrypted for the keys if there are any, and prints what was done.
void write_obfuscated(const ObfuscationOptions& options, const ModelOptions& model, const std::string& output,
                      const ProtectOptions& protect, bool json);
// --measure.
void measure_degrees(const ObfuscationOptions& options, const ModelOptions& model, bool json);
// --licence, of a file of symbols; prints what was written unless `quiet`.
void write_licence(const ObfuscationOptions& options, const std::string& symbols, bool quiet);
// --emit-library.
void write_library_sources(const ObfuscationOptions& options, std::optional<std::uint64_t> seed);

}  // namespace tessera::apps
