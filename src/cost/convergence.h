// Finds the batch size that trains fastest: a larger batch computes more efficiently, but needs more epochs.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tessera::cost {

// The number of epochs until a net is good enough, for a batch size.
struct ConvergencePoint {
  std::int64_t batch = 0;
  double epochs = 0;
};

// Parses "2048:65, 3072:75-80, 4096:85-90", or one entry per line. A range counts as its middle; `#` begins a comment.
// Throws Error(invalid_argument).
std::vector<ConvergencePoint> parse_convergence(std::string_view text);

struct BatchChoice {
  struct Row {
    std::int64_t batch = 0;
    double epochs = 0;
    double iterations = 0;  // epochs x samples / batch
    double iteration_seconds = 0;
    double seconds = 0;  // iteration_seconds x iterations
  };
  std::vector<Row> rows;  // by batch
  std::size_t best = 0;   // index of the row with the least time
};

// The time of training with each batch of the table, on `samples` examples per epoch. Throws Error(invalid_argument)
// for an empty table, or one that has a batch twice.
BatchChoice choose_batch(std::vector<ConvergencePoint> table, double samples,
                         const std::function<double(std::int64_t batch)>& iteration_seconds);

}  // namespace tessera::cost
