#include "generate/kept_sequence.h"

#include <algorithm>

namespace tessera::generate {

KeptSequence::KeptSequence(ModelStep& step) : step_(&step), number_(step.open()) {
  end();
}

KeptSequence::~KeptSequence() {
  step_->close(number_);
}

std::size_t KeptSequence::begin(std::span<const std::int64_t> prompt) {
  step_->set_idle(number_, false);
  const auto left = std::min<std::size_t>(tokens_.size(), static_cast<std::size_t>(step_->length(number_)));
  const std::size_t most = std::min(left, prompt.empty() ? 0 : prompt.size() - 1);
  const auto differs =
      std::mismatch(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(most), prompt.begin());
  const auto kept = static_cast<std::size_t>(differs.first - tokens_.begin());
  tokens_.resize(kept);
  step_->truncate(number_, static_cast<std::int64_t>(kept));
  return kept;
}

void KeptSequence::end() {
  step_->set_idle(number_, true);
}

}  // namespace tessera::generate
