// The targets of a build with the server.
#include <array>

#include "target.h"

namespace tessera::fuzz {

std::span<const Target> serve_targets() {
  static constexpr std::array kTargets{Target{"serve_request", serve_request, {}}, Target{"serve_grpc", serve_grpc, {}},
                                       Target{"serve_settings", serve_settings, {}},
                                       Target{"serve_picture", serve_picture, {}},
                                       Target{"serve_http", serve_http, {}}};
  return kTargets;
}

}  // namespace tessera::fuzz
