// The whole server: from its options to its end by a signal.
#pragma once

#include <functional>

#include "serve/program/server.h"
#include "serve/program/server_options.h"

namespace tessera::serve {

// Serves until SIGTERM or SIGINT; SIGHUP reads the repository anew. `ready` is told the ports once models are loaded
// and requests are taken. On the way out it is not ready for ServerOptions::shutdown_delay_seconds and goes on taking
// requests; then it takes no new ones, answers those that it has, and returns. A second signal to end it ends the
// process at once. Call it before there are other threads. Throws Error for options and files that cannot be used.
void run_server(const ServerOptions& options, const std::function<void(const ServerPorts&)>& ready);

}  // namespace tessera::serve
