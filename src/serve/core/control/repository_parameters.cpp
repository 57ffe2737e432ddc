#include "serve/core/control/repository_parameters.h"

#include <fmt/format.h>

#include "base/text.h"
#include "serve/protocol/failure.h"

namespace tessera::serve {

void refuse_repository_parameter(const std::string& key, bool load) {
  if (load && key.starts_with("file:"))
    throw Failure(Reason::unsupported,
                  fmt::format("the files of a model cannot come with the request that loads it ('{}'): put them into "
                              "the repository, and name only the configuration in the request",
                              base::shown(key)));
  throw Failure(Reason::bad_request,
                fmt::format("the parameter '{}' is unknown or of another type: expected {}", base::shown(key),
                            load ? "'config', a text" : "'unload_dependents', true or false"));
}

}  // namespace tessera::serve
