// The parameters of a request to load or unload a model, by either protocol.
#pragma once

#include <optional>
#include <string>

namespace tessera::serve {

struct RepositoryParameters {
  std::optional<std::string> config;  // to load: Triton's configuration as JSON text, instead of the model's file
  bool unload_dependents = false;     // to unload: the models that an ensemble needs, too
};

// Throws Failure for a parameter that is none of these: unsupported for the files of a model, bad_request for others.
[[noreturn]] void refuse_repository_parameter(const std::string& key, bool load);

}  // namespace tessera::serve
