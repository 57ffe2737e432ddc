// The command line described as data, from which completion scripts and the manual are made.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera::apps {

struct OptionDescription {
  std::vector<std::string> names;  // "-o", "--output"; for a positional argument only its name
  std::string text;                // description of the option
  std::string type;                // "INT"; empty for a flag
  std::string default_value;
  std::vector<std::string> values;  // the values that it is known to take; empty for file names or any text
  bool positional = false;

  bool takes_value() const { return !type.empty(); }
};

struct VerbDescription {
  std::string name, text, footer;  // nested verbs are named by both words: "share run"
  std::vector<OptionDescription> options;
};

// The program's own options under an empty name, followed by all verbs in order. Each verb is followed by its nested
// verbs, whose names are a positional argument of it.
std::vector<VerbDescription> describe_command_line(const CLI::App& app);

}  // namespace tessera::apps
