// Ends verbs cleanly at Ctrl-C, a closed terminal, or a request to terminate.
#pragma once

#include "tessera/session.h"

namespace tessera::apps {

// After this call, SIGINT, SIGTERM and SIGHUP remove temporary files and end the process with one line on stderr and
// the exit code 128 + number of the signal. Signals that were ignored when the process started (nohup) stay
// ignored.
void handle_signals();

// The signal that was received, or 0.
int received_signal();

// For verbs that can show partial results. During its lifetime, the first signal only cancels, and the next one ends
// the process as described above. At most one object may exist at a time.
class GracefulStop {
 public:
  GracefulStop();
  ~GracefulStop();
  GracefulStop(const GracefulStop&) = delete;
  GracefulStop& operator=(const GracefulStop&) = delete;

  // To be passed in RunOptions.
  const Cancellation& cancellation() const;
  bool requested() const { return cancellation().flag().load(); }
};

// For verbs that go on after an interrupt: during its lifetime, SIGINT only cancels, however often it comes; the other
// signals end the process as described above. At most one object may exist at a time.
class AnswerStop {
 public:
  AnswerStop();
  ~AnswerStop();
  AnswerStop(const AnswerStop&) = delete;
  AnswerStop& operator=(const AnswerStop&) = delete;

  const Cancellation& cancellation() const;
};

}  // namespace tessera::apps
