// A sequence that stays in the cache of a model between two answers, so that a prompt that begins with the same tokens
// need not be computed from its beginning.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/model_step.h"

namespace tessera::generate {

// Between begin() and end() the sequence belongs to one answer; else it is idle (ModelStep::set_idle). Not thread-safe.
class KeptSequence {
 public:
  // The step must outlive the object.
  explicit KeptSequence(ModelStep& step);
  ~KeptSequence();
  KeptSequence(const KeptSequence&) = delete;
  KeptSequence& operator=(const KeptSequence&) = delete;

  // Keeps the tokens that the sequence and the prompt begin with, and takes the others back. Returns how many are kept:
  // all of the prompt but one at most, because the logits of its last token are wanted.
  std::size_t begin(std::span<const std::int64_t> prompt);
  // Says that a step has appended the token.
  void append(std::int64_t token) { tokens_.push_back(token); }
  void end();

  // Its number in the step.
  std::int64_t number() const { return number_; }

 private:
  ModelStep* step_;
  std::int64_t number_;
  std::vector<std::int64_t> tokens_;  // of the sequence, in its order, before any was taken while it was idle
};

}  // namespace tessera::generate
