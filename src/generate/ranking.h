// The tokens that may come next in the order of their logits, sorted only as far as somebody looks.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::generate {

struct Candidate {
  double logit;
  std::int64_t token;
};

// The candidates from the highest logit down; of equal logits, the lowest token comes first.
class Ranking {
 public:
  explicit Ranking(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {}

  std::size_t size() const { return candidates_.size(); }
  // The candidate at a place below size().
  const Candidate& at(std::size_t place) {
    if (place >= sorted_) sort_to(place + 1);
    return candidates_[place];
  }
  // Drops all but the first `count`, which must not be more than size().
  void truncate(std::size_t count);
  // The sum of exp(logit − the highest logit) over all candidates, in the order in which they lie.
  double total();
  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  void sort_to(std::size_t count);

  std::vector<Candidate> candidates_;
  std::size_t sorted_ = 0;  // the first of them are in their places
};

}  // namespace tessera::generate
