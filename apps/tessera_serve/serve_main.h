// The command `tessera serve` as a function: of the program tessera-serve, and of the Python package.
#pragma once

namespace tessera::apps {

// Serves until a signal ends it, or does what else the arguments ask for. argv[0] is not read. Returns the exit status.
int serve_main(int argc, char** argv);

}  // namespace tessera::apps
