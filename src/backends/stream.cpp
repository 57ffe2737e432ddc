#include "backends/stream.h"

#include "base/error.h"

namespace tessera::backends {

void Stream::begin_capture() {
  fail(ErrorKind::unsupported, "this device cannot record a plan");
}

std::unique_ptr<Recording> Stream::end_capture() {
  fail(ErrorKind::unsupported, "this device cannot record a plan");
}

}  // namespace tessera::backends
