// One step of a language model: the rows of tokens of any sequences go in, and the logits of some of them come out.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/session.h"

namespace tessera::generate {

struct StepRow {
  std::int64_t token;
  std::int64_t sequence;  // as ModelStep::open gave it
};

// The model behind a step keeps the keys and values of the open sequences. Not thread-safe.
class ModelStep {
 public:
  virtual ~ModelStep() = default;

  virtual std::int64_t vocabulary() const = 0;
  // The most tokens of one sequence.
  virtual std::int64_t context() const = 0;
  // The most rows of one step.
  virtual std::int64_t most_rows() const = 0;

  // A new sequence without tokens.
  virtual std::int64_t open() = 0;
  // Gives the memory of a sequence back.
  virtual void close(std::int64_t sequence) = 0;
  // The tokens of a sequence.
  virtual std::int64_t length(std::int64_t sequence) const = 0;
  // Takes the last tokens of a sequence back until `length` are left, which is at most its length.
  virtual void truncate(std::int64_t sequence, std::int64_t length) = 0;
  // While a sequence is idle, others that find no memory take its last tokens. It goes on with those that are left, and
  // must not be idle then.
  virtual void set_idle(std::int64_t sequence, bool idle) = 0;

  // Appends each row's token to its sequence; rows of one sequence follow each other in its order. Returns, row by row
  // of `wanted` (places in `rows`), the logits of the token that follows; they are valid until the next run. A step
  // that throws changes nothing. Throws Error(over_budget) when the cache has no more memory, and as Session::run does.
  virtual std::span<const float> run(std::span<const StepRow> rows, std::span<const std::int64_t> wanted,
                                     const RunOptions& options) = 0;
};

}  // namespace tessera::generate
