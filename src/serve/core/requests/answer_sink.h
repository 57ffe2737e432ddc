// The receiver of a request's answers, where there may be several.
#pragma once

#include <functional>
#include <optional>

#include "serve/protocol/failure.h"
#include "serve/protocol/inference.h"

namespace tessera::serve {

// Functions may be called by any thread, one at a time, and throw nothing.
class AnswerSink {
 public:
  // Called once for each answer: with true when the receiver can take another one, which may be before put() returns,
  // and with false when it takes no more, because the client has gone or the answers are too large.
  using Next = std::function<void(bool takes_more)>;

  virtual ~AnswerSink() = default;
  // The maker waits for `next` before it makes another answer, so that a slow client holds few of them.
  virtual void put(InferenceResponse answer, Next next) = 0;
  // The last call, exactly once. Without a failure all answers were put.
  virtual void end(std::optional<Failure> failure) = 0;
};

}  // namespace tessera::serve
