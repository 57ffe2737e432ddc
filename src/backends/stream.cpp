#include "backends/stream.h"

#include "base/error.h"

namespace tessera::backends {

void Stream::begin_capture() {
  fail(ErrorKind::unsupported, "this device cannot record a plan");
}

std::unique_ptr<Recording> Stream::end_capture(std::unique_ptr<Recording>) {
  fail(ErrorKind::unsupported, "this device cannot record a plan");
}

void Stream::abandon_capture() noexcept {
  if (!is_capturing()) return;
  try {
    end_capture();
  } catch (const Error&) {
    // Whatever invalidated the capture was thrown where it happened.
  }
}

}  // namespace tessera::backends
