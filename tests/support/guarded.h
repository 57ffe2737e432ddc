// Runs a body where it can do no harm: in a process of its own, with limits, its memory and time measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/error.h"

namespace tessera::test {

struct Outcome {
  std::string crash;  // how the process died or what it threw that is no tessera::Error; empty: it did neither
  std::optional<ErrorKind> kind;    // of the Error that was thrown; nothing: the body returned
  std::string text;                 // Error::what()
  double seconds = 0;               // of computing; waiting for a core on a busy machine is not its fault
  std::int64_t resident_bytes = 0;  // the most that it had at once, beyond what this process had when it began
};

// The body must not use threads made before the call. It is ended by force after half a minute, and when it takes
// gigabytes.
Outcome run_guarded(const std::function<void()>& body);

// What every input must keep to: no crash, less than 5 seconds and 512 MiB (with sanitizers ten times the time and any
// memory), and if there is an error, one printable line of at most 20 kB. Fails the test otherwise, naming `what`.
Outcome expect_harmless(const std::string& what, const std::function<void()>& body);

// The same, and the body must throw an Error of that kind whose text has this part.
void expect_refused(const std::string& what, ErrorKind kind, const std::string& part,
                    const std::function<void()>& body);

}  // namespace tessera::test
