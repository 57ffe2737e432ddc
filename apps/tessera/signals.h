// What Ctrl-C, a closed terminal and a request to end do to a verb.
#pragma once

#include "tessera/session.h"

namespace tessera::apps {

// From here on SIGINT, SIGTERM and SIGHUP end the process with one line on standard error, no temporary files and the
// exit code 128 + number of the signal. A signal that whoever started the process ignores (nohup) stays ignored.
void handle_signals();

// The signal that came, or 0.
int received_signal();

// For verbs that have something to show when they stop early: while one lives, the first signal only cancels, and the
// next ends the process as above. One at a time.
class GracefulStop {
 public:
  GracefulStop();
  ~GracefulStop();
  GracefulStop(const GracefulStop&) = delete;
  GracefulStop& operator=(const GracefulStop&) = delete;

  // For RunOptions.
  const Cancellation& cancellation() const;
  bool requested() const { return cancellation().flag().load(); }
};

}  // namespace tessera::apps
