// Which weights to transfer together, so that computing a model begins before all of its weights are there
// (Bai, Zhang, Zhu, Jin, "PipeSwitch: Fast Pipelined Context Switching for Deep Learning Applications", OSDI 2020).
//
// A model is a row of stages: the transfer of some weights, and the computing that can begin once they and everything
// before them are there. Groups are runs of stages whose weights arrive together. Each group costs a fixed overhead
// (calls, wake-ups), so few groups transfer faster and many begin to compute earlier.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tessera::cost {

struct TransferStage {
  double transfer_seconds = 0, compute_seconds = 0;
};

// When the last stage has computed, if transfer and computing begin at 0. `ends`: for each group the index behind its
// last stage, ascending; the last one is the number of stages. With T the end of a group's transfer and E that of its
// computing: T(g) = T(g-1) + overhead + sum of its transfers, E(g) = max(T(g), E(g-1)) + sum of its computing.
double pipelined_seconds(std::span<const TransferStage> stages, std::span<const std::size_t> ends,
                         double overhead_seconds);

// No grouping is faster than this: all transfers in one group and the last stage's computing behind them, or all
// computing behind the first transfer.
double pipelined_lower_bound(std::span<const TransferStage> stages, double overhead_seconds);

// The `ends` of a grouping whose time exceeds the least possible by at most `tolerance` (0.01: one per cent). Searches
// the groupings from the front, keeps of those that end at one stage the ones that no other beats in both transfer and
// computing, and drops what a lower bound shows to be no better than the best known.
std::vector<std::size_t> choose_transfer_groups(std::span<const TransferStage> stages, double overhead_seconds,
                                                double tolerance = 0.01);

}  // namespace tessera::cost
