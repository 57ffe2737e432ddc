// The command line described as data, from which completion scripts and the manual are made.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera::apps {

struct OptionDescription {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument its name alone
  std::string text;                // what it does
  std::string type;                // "INT", empty for a flag
  std::string default_value;
  std::vector<std::string> values;  // those that it is known to take; empty: file names or anything
  bool positional = false;

  bool takes_value() const { return !type.empty(); }
};

struct VerbDescription {
  std::string name, text, footer;  // the name of a verb of a verb has both words: "share run"
  std::vector<OptionDescription> options;
};

// The program's own options under an empty name, then all verbs in order, each followed by its own verbs, whose names
// it takes as a positional argument.
std::vector<VerbDescription> describe_command_line(const CLI::App& app);

}  // namespace tessera::apps
