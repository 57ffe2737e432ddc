// Which models are loaded at the start, who may have others loaded, and when the server says that it is ready.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::serve {

enum class ModelControl : std::uint8_t {
  usual,       // all models at the start; requests, SIGHUP and polling change them
  none,        // all models at the start, and nothing changes them
  poll,        // all models at the start; changes on disk are taken, requests to load or unload are refused
  by_request,  // "explicit": those that are named at the start, and those that requests name
};

// "none", "poll", "explicit"; "" is usual. Throws Error(invalid_argument) listing them.
ModelControl parse_model_control(const std::string& name);

struct ReadyRule {
  enum class Kind : std::uint8_t {
    all,    // every model that was asked for is loaded
    any,    // one of them is, or none was asked for
    listed  // those of `models` are
  };
  Kind kind = Kind::all;
  std::vector<std::string> models;
};

// "all", "any", or names of models with commas between. Throws Error(invalid_argument) for a name that no model can
// have.
ReadyRule parse_ready_rule(const std::string& text);

struct ControlOptions {
  ModelControl mode = ModelControl::usual;
  std::vector<std::string> load;  // by_request: what is loaded at the start; "*": all
  ReadyRule ready;
};

// Throws Error(invalid_argument) for options that contradict each other. `poll_seconds`: between two looks at the
// repository, 0 for none.
void check_control(const ControlOptions& options, double poll_seconds);

}  // namespace tessera::serve
