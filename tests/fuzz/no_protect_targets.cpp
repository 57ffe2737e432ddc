// The targets of a build without libsodium: there are no protected files to read.
#include "target.h"

namespace tessera::fuzz {

std::span<const Target> protect_targets() {
  return {};
}
std::span<const Target> secret_shared_targets() {
  return {};
}

}  // namespace tessera::fuzz
